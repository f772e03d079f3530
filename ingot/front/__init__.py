"""The command line: doit's tasks, commands and reporter; nothing else knows doit."""
