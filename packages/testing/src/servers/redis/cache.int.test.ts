// @module-tag nightly

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { cacheDirectory, withLock } from './cache.ts'

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'onceward-cache-'))
  vi.stubEnv('ONCEWARD_CACHE', directory)
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(directory, { recursive: true })
})

test('work under one lock never overlaps, even if some of it fails', async () => {
  let inside = 0
  let most = 0
  const work = async (): Promise<void> => {
    inside += 1
    most = Math.max(most, inside)
    await cacheDirectory()
    inside -= 1
    if (most === 1) throw new Error('half way')
  }
  const all = [1, 2, 3].map(() => withLock('work', work).catch((error: Error) => error.message))
  expect(await Promise.all(all)).toEqual(['half way', 'half way', 'half way'])
})

test('the lock of a process that died can be taken over', async () => {
  // No process has the highest id that Linux and macOS know.
  await writeFile(join(directory, 'work.lock'), '4194304')
  expect(await withLock('work', async () => 'done')).toBe('done')
})
