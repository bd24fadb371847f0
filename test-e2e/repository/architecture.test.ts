import { readdirSync, readFileSync } from 'node:fs'
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

it.each(['core', 'postgres', 'redis', 'http'])('the page names every room of %s', (name) => {
  const text = readFileSync(page, 'utf8')
  const entries = readdirSync(new URL(`../../packages/${name}/src`, import.meta.url), {
    withFileTypes: true,
  })
  const rooms = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  const named = rooms.filter((room) => text.includes(`\`${room}/\``))
  expect(named.toSorted()).toEqual(rooms.filter((room) => room !== 'fixtures').toSorted())
})

it('goes red for a file and for a name that are gone', () => {
  expect(missingFrom('`packages/sqs/src/poll.ts` calls `runSlice()`')).toEqual([
    'packages/sqs/src/poll.ts',
    'runSlice',
  ])
})
