"""How is a model trained on anybody's text, and nothing lost?"""
