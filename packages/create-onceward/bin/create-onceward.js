#!/usr/bin/env node
// Not in dist: npm links and marks this file when it installs a clone, before anything is built.
import { existsSync } from 'node:fs'

const OLDEST = 22
const program = new URL('../dist/index.js', import.meta.url)
const { node } = process.versions

// An older Node refuses a module that imports what it lacks, before any module can say so.
if (Number.parseInt(node, 10) < OLDEST) {
  process.stderr.write(
    `create-onceward needs Node ${OLDEST} or newer, and this is Node ${node}: run it with a newer Node.\n`,
  )
  process.exitCode = 2
} else if (existsSync(program)) await import(program.href)
else {
  process.stderr.write(
    'create-onceward is not built, because this is a clone of the repository: run `npm run build` there first.\n',
  )
  process.exitCode = 2
}
