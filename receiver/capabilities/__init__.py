"""What can be left out of the product, a folder each: delete the folder and its line in `registry.NAMES`.

Nothing below this package imports it, and no folder imports another one. Inside a folder, modules that import nothing
but the core are pure.
"""
