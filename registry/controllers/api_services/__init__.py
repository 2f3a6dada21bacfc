"""Controllers of APIServices: `monitor` checks their servers, `automatic` writes those of resources served here."""
