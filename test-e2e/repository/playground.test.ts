import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'
import { afterAll, describe, expect, test } from 'vitest'
import { browserCore } from '../../site/playground/bundle.ts'
import type * as Engine from '../../site/playground/game.ts'
import { BUGS, FIRST_SEED, HABITS } from '../../site/playground/menu.ts'
import { digestOf } from '../../site/playground/sha.ts'

const folder = await mkdtemp(join(tmpdir(), 'onceward-playground-'))
afterAll(() => rm(folder, { recursive: true }))

const game = join(import.meta.dirname, '../../site/playground/game.ts')

/** The engine as a browser gets it, with Node replaced, and with a historical bug if one is named. */
async function bundled(bug = ''): Promise<typeof Engine> {
  await using bundle = await rolldown({
    input: bug === '' ? game : `${game}?bug=${bug}`,
    platform: 'browser',
    plugins: [browserCore()],
    // What stays unresolved would be missing in a browser.
    onLog: (_level, { message }) => {
      throw new Error(message)
    },
  })
  const file = join(folder, `game-${bug}.mjs`)
  const { output } = await bundle.write({ file, codeSplitting: false })
  expect(output[0].imports).toEqual([])
  return import(pathToFileURL(file).href)
}

async function played(engine: typeof Engine, options: Engine.GameOptions) {
  const playing = new engine.Game(options)
  while (await playing.step());
  return playing.view()
}

const SEEDS = Array.from({ length: 40 }, (_, index) => index + 1)

describe('the playground', () => {
  test('doubles without the guard and is exact with it, whatever the seed', async () => {
    const engine = await bundled()
    for (const seed of SEEDS) {
      const view = await played(engine, { seed, habit: 'acks-after', isStriking: true })
      expect(view.without.doubled, `seed ${seed}`).toBeGreaterThan(1)
      expect(view.with, `seed ${seed}`).toMatchObject({ isOver: true, doubled: 0, lost: 0 })
      expect(new Set(view.with.charges.map(({ count }) => count))).toEqual(new Set([1]))
    }
  })

  test.each(HABITS)('goes wrong without the guard, whoever $title', async ({ name }) => {
    const engine = await bundled()
    const { without } = await played(engine, { seed: FIRST_SEED, habit: name, isStriking: true })
    expect(name === 'acks-first' ? without.lost : without.doubled).toBeGreaterThan(0)
  })

  test.each(BUGS)('goes wrong with the historical bug $name', async ({ name, says, seed }) => {
    const view = await played(await bundled(name), { seed, habit: 'acks-after', isStriking: true })
    expect(says.includes('double') ? view.with.doubled : view.with.lost).toBeGreaterThan(0)
  })

  test('gives the same game for the same seed, and another one for another', async () => {
    const engine = await bundled()
    const logs = async (seed: number) =>
      JSON.stringify(await played(engine, { seed, habit: 'acks-after', isStriking: true }))
    expect(await logs(3)).toBe(await logs(3))
    expect(await logs(3)).not.toBe(await logs(4))
  })

  test('lets the visitor kill and freeze in both columns', async () => {
    const engine = await bundled()
    const quiet = { seed: 1, habit: 'acks-after', isStriking: false } as const
    const playing = new engine.Game(quiet)
    for (let steps = 0; steps < 12; steps += 1) await playing.step()
    playing.kill(0)
    playing.freeze(1)
    const { with: guarded, without } = playing.view()
    for (const side of [guarded, without]) {
      expect(side.workers.map(({ state }) => state)).toEqual(['killed', 'frozen'])
    }
    while (await playing.step());
    expect(playing.view().with).toMatchObject({ isOver: true, doubled: 0, lost: 0 })
  })
})

test.each(['sha1', 'sha256'])('the playground computes %s as Node does', (algorithm) => {
  for (const length of [0, 1, 55, 56, 64, 1_000]) {
    const bytes = new Uint8Array(length).map((_, at) => (at * 31 + length) % 256)
    const expected = createHash(algorithm).update(bytes).digest('hex')
    expect(Buffer.from(digestOf(algorithm, bytes)).toString('hex')).toBe(expected)
  }
})
