def report(options, environment): pass
