"""What does everything stand on: files, data sets, settings, the machine?"""
