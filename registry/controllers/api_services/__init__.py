"""What other servers need that APIServices name: `monitor` checks them, `namespaces` deletes content in them."""
