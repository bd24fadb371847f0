import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { missingFrom, missingIn, namedIn } from './named-in-docs.ts'

const page = new URL('../../docs/architecture.md', import.meta.url)

it('every path and exported name in docs/architecture.md exists', () => {
  const foreign = ['BEGIN', 'COMMIT']
  expect(missingIn('docs/architecture.md', { foreign })).toEqual([])
})

it('the page names enough to be worth a test, in every room of core', () => {
  const { names, paths } = namedIn(readFileSync(page, 'utf8'))
  expect(paths.length).toBeGreaterThan(40)
  expect(names.length).toBeGreaterThan(15)
})

it('goes red for a file and for a name that are gone', () => {
  expect(missingFrom('`packages/sqs/src/poll.ts` calls `runSlice()`')).toEqual([
    'packages/sqs/src/poll.ts',
    'runSlice',
  ])
})
