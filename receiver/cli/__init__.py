"""The command line, `gpu-autoscaler COMMAND`: one module per command, and the texts that commands print.

Commands ask the running server over HTTP or read files. They never write to Civo or the cluster themselves, except for
what `doctor` asks a person to confirm.
"""
