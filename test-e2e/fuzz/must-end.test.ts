import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'

/** A process that has done its work, and what it has left open. */
function ended(left: string): { readonly status: number | null; readonly stderr: string } {
  const file = JSON.stringify(join(import.meta.dirname, 'must-end.ts'))
  const program = `const { mustEnd } = await import(${file}); mustEnd(200); ${left}`
  const args = ['--input-type=module', '--eval', program]
  return spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 30_000 })
}

test('a process that has closed everything ends by itself', () => {
  expect(ended('')).toMatchObject({ status: 0, stderr: '' })
})

test.each([
  ['a timer', 'setInterval(() => undefined, 10_000)', 'Timeout'],
  ['a server', "(await import('node:net')).createServer().listen(0, '127.0.0.1')", 'TCPServerWrap'],
])('a process that has forgotten %s fails and says so', (_what, left, name) => {
  const { status, stderr } = ended(left)
  expect(status).toBe(1)
  expect(stderr).toContain('the process does not end')
  expect(stderr).toContain(name)
})
