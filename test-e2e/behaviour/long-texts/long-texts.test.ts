import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'

/** What takes linear time takes seconds on a busy machine. What takes quadratic time takes hours. */
const ROW_MS = 60_000

/** In a process of its own: while an expression is matched, no timer of its thread fires. */
test('no text of the largest size that is accepted stops a process', async () => {
  const program = join(import.meta.dirname, 'long-texts-main.ts')
  const child = spawn(process.execPath, ['--conditions=@onceward/source', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const kill = (): void => void child.kill('SIGKILL')
  let timer = setTimeout(kill, ROW_MS)
  let last = 'begins: the program'
  for await (const line of createInterface(child.stdout)) {
    last = line
    clearTimeout(timer)
    timer = setTimeout(kill, ROW_MS)
  }
  clearTimeout(timer)
  expect(last).toBe('ends')
})
