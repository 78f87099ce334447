"""What translates or continues: translators, published models, engines, speed, Muon."""
