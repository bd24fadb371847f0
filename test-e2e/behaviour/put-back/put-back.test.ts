// @module-tag nightly

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Bug } from './bug.ts'
import { CLAIM_BUGS } from './claim-bugs.ts'
import { copyProduct, type ProductCopy } from './product-copy.ts'
import { RUN_BUGS } from './run-bugs.ts'

const root = join(import.meta.dirname, '../../..')
const BUGS: readonly Bug[] = [...CLAIM_BUGS, ...RUN_BUGS]

let copy: ProductCopy
beforeAll(async () => {
  copy = await copyProduct()
})
afterAll(() => copy[Symbol.asyncDispose]())

test.each(BUGS)('the source still has the place of trap $trap: $what', async (bug) => {
  await using _ = await copy.putBack(bug)
  expect(await readFile(join(root, bug.edits[0]?.file ?? ''), 'utf8')).not.toBe('')
})

/** Without the bug the test passes, so that it is the bug that it finds. */
async function isFound(bug: Bug): Promise<void> {
  const sound = await copy.run(bug.foundBy)
  expect(sound).toMatchObject({ failed: 0 })
  expect(sound.passed).toBeGreaterThan(0)
  await using _ = await copy.putBack(bug)
  expect((await copy.run(bug.foundBy)).failed).toBeGreaterThan(0)
}

describe('a historical bug that is put back is found on real servers', () => {
  test.each(BUGS)('trap $trap: $what', isFound, 600_000)
})
