import { spawnSync } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const packages = join(import.meta.dirname, '../..')
const AS_NODE_20 =
  "data:text/javascript,Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.11.0' } })"

const PROGRAMS = [
  ['onceward', 3],
  ['create-onceward', 2],
] as const

// Red before: the SyntaxError of an import that Node 20 lacks.
test.each(PROGRAMS)('%s says at once that Node is too old', (name, code) => {
  const bin = join(packages, name, 'bin', `${name}.js`)
  const { status, stderr } = spawnSync(process.execPath, ['--import', AS_NODE_20, bin], {
    encoding: 'utf8',
  })
  expect(stderr).toBe(
    `${name} needs Node 22 or newer, and this is Node 20.11.0: run it with a newer Node.\n`,
  )
  expect(status).toBe(code)
})

// Red before: ERR_MODULE_NOT_FOUND with a stack.
test.each(PROGRAMS)('%s says in a clone that it is not built', async (name, code) => {
  const clone = await mkdtemp(join(tmpdir(), 'onceward-bin-'))
  const file = `${name}/bin/${name}.js`
  await cp(join(packages, file), join(clone, file))
  await cp(join(packages, name, 'package.json'), join(clone, name, 'package.json'))
  const { status, stderr } = spawnSync(process.execPath, [join(clone, file)], { encoding: 'utf8' })
  expect(stderr).toBe(
    `${name} is not built, because this is a clone of the repository: run \`npm run build\` there first.\n`,
  )
  expect(status).toBe(code)
  await rm(clone, { recursive: true })
})
