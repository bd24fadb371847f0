#!/usr/bin/env node
// Not in dist: npm links and marks this file when it installs a clone, before anything is built.
import '../dist/index.js'
