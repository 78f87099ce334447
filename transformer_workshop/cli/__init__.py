"""What can be called from a shell?"""
