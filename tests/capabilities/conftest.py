"""The store that every life in memory writes to."""

from tests.given.stores_of_lives import new_store as new_store
from tests.given.stores_of_lives import of_all_lives as of_all_lives
from tests.given.stores_of_lives import store as store
