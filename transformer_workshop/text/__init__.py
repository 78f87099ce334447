"""How does text, whatever its format, become pairs and ids?"""
