"""Storage settings: parses options and catalog properties, and converts them to the arguments of each client.

`StorageOptions` parses options, and returns the arguments of Arrow's clients. `known_settings` lists all settings with
their names in each library. `client_settings` returns the settings of obstore's clients.
"""

from lakescan.storage.settings.known_settings import SETTINGS, Role, Setting
from lakescan.storage.settings.option_names import find_settings, is_hadoop_setting, parse_option
from lakescan.storage.settings.options import StorageOptions

__all__ = ["SETTINGS", "Role", "Setting", "StorageOptions", "find_settings", "is_hadoop_setting", "parse_option"]
