import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const packages = join(import.meta.dirname, '../..')
const AS_NODE_20 =
  "data:text/javascript,Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.11.0' } })"

// Red before: the SyntaxError of an import that Node 20 lacks.
test.each([
  ['onceward', 3],
  ['create-onceward', 2],
])('%s says at once that Node is too old', (name, code) => {
  const bin = join(packages, name, 'bin', `${name}.js`)
  const { status, stderr } = spawnSync(process.execPath, ['--import', AS_NODE_20, bin], {
    encoding: 'utf8',
  })
  expect(stderr).toBe(
    `${name} needs Node 22 or newer, and this is Node 20.11.0: run it with a newer Node.\n`,
  )
  expect(status).toBe(code)
})
