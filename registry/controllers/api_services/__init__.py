"""Controllers of APIServices: `monitor` checks their servers, `automatic` writes those of what is served here."""
