"""What a task is: its files, features, head and scores; a file a kind."""
