"""Keep these modules out of collection: they need extras, and minutes."""

collect_ignore_glob = ["*.py"]
