"""What translates or continues: architectures, translators, published models."""
