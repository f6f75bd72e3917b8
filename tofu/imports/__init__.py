"""What `import tofu` changes of importing others: MXNet becomes importable, modules of version 0.1 are found under their old names."""
