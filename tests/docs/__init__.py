"""Every code block of the pages runs."""
