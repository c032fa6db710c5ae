"""Storage settings: options and catalog properties, parsed and converted to the arguments of each client.

`StorageOptions` is the entry: it parses options, and returns the arguments of Arrow's clients. `known_settings` is the
table of all settings with their names in each library. `client_settings` returns the settings of obstore's clients.
"""

from lakescan.storage.settings.known_settings import SETTINGS, Role, Setting
from lakescan.storage.settings.option_names import find_settings, is_hadoop_setting, parse_option
from lakescan.storage.settings.options import StorageOptions

__all__ = ["SETTINGS", "Role", "Setting", "StorageOptions", "find_settings", "is_hadoop_setting", "parse_option"]
