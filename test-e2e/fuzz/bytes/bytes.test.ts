// @module-tag nightly

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { OpenFuzz } from '../fuzz.ts'
import { BODIES } from './bodies.ts'
import type { History, Told } from './history.ts'
import { bytesFuzz } from './index.ts'
import { RULES, ruleOf, TURN_MS, violationsOf } from './judge.ts'
import { ORIGINS, type Plan, planOf } from './plan.ts'
import { play } from './play.ts'
import { memorySetup, type Setup } from './setups.ts'

describe('bodies, keys, headers and envelopes of every kind', () => {
  let fuzz: OpenFuzz
  beforeAll(async () => {
    fuzz = await bytesFuzz.open()
  })
  // The servers may have failed to start.
  afterAll(() => (fuzz as OpenFuzz | undefined)?.close())

  it.each([1, 2, 3])('seed %i breaks no promise', async (seed) => {
    expect(await fuzz.play(seed)).toBeUndefined()
  })
})

describe('what is drawn', () => {
  const cases = Array.from({ length: 300 }, (_, seed) => planOf(seed).cases).flat()

  it('is the same for the same seed', () => {
    expect(planOf(7)).toEqual(planOf(7))
    expect(planOf(7)).not.toEqual(planOf(8))
  })

  it('holds every kind of body', () => {
    const kinds = new Set(cases.map(({ body }) => body.kind))
    expect(Object.keys(BODIES).filter((kind) => !kinds.has(kind))).toEqual([])
  })
})

/** A plan whose rules all have something to judge: an event, one that fails, a refused one, and a key used twice. */
const PLAN: Plan = {
  seed: 1,
  cases: planOf(1)
    .cases.slice(0, 4)
    .map((one, index) => ({
      ...one,
      name: `c${index}`,
      origin: ORIGINS[index] ?? 'plain',
      body: { kind: index === 2 ? 'cut JSON' : 'text', size: 20 + index, salt: 1 },
      key: { where: 'body' as const, json: index === 3 ? '"k0"' : `"k${index}"` },
      handler: index === 1 ? ('fatal' as const) : ('ok' as const),
    })),
}

describe('the judge', () => {
  let sound: History
  beforeAll(async () => {
    sound = await play(PLAN, [memorySetup()])
  })

  const rulesBroken = (history: History): readonly string[] => [
    ...new Set(violationsOf(history).map(ruleOf)),
  ]
  const doctored = (name: string, changes: Partial<Told>): History => ({
    ...sound,
    told: sound.told.map((told) => (told.one.name === name ? { ...told, ...changes } : told)),
  })
  const [DUPLICATE, FATAL] = ['ack duplicate', 'dead-letter fatal']

  /** One doctored history for each rule; other rules may see it too. */
  const DOCTORED: Readonly<Record<keyof typeof RULES, () => History>> = {
    'every delivery ends': () => doctored('c0', { settled: ['defer store-down'] }),
    'a message that is no event is refused with its reason': () =>
      doctored('c2', { settled: [FATAL, FATAL, FATAL] }),
    'a new event runs': () => doctored('c0', { settled: [DUPLICATE, DUPLICATE, DUPLICATE] }),
    'a copy ends as its original did': () =>
      doctored('c0', { settled: ['ack processed', 'ack processed', DUPLICATE] }),
    'one message has one identity': () => doctored('c0', { ids: ['a', 'b'] }),
    'other keys are other events': () =>
      doctored('c1', { ids: sound.told.find(({ one }) => one.name === 'c0')?.ids ?? [] }),
    'handlers see what the broker gave': () => doctored('c0', { changed: ['another body'] }),
    'a dead letter is stored as it came': () => doctored('c1', { stored: ['another body'] }),
    'a replay runs what was mended, and refuses again what is no event': () =>
      doctored('c1', { replayed: undefined }),
    'an event has one effect, and nothing else has one': () => doctored('c2', { effects: 1 }),
    'the event loop goes on': () => doctored('c0', { turnMs: TURN_MS + 1_000, parseMs: 1 }),
    'an envelope is read back whole, or refused': () =>
      doctored('c0', { envelope: ['an envelope cut: read'] }),
  }

  it('finds nothing in a sound history', () => {
    expect(sound.told).toHaveLength(4)
    expect(violationsOf(sound)).toEqual([])
  })

  it.each(Object.keys(RULES))('sees when this is broken: %s', (rule) => {
    const history = DOCTORED[rule]?.()
    expect(history === undefined ? [] : rulesBroken(history)).toContain(rule)
  })

  it.each([
    ['an event is lost', { effects: 0 }],
    ['an effect is doubled', { effects: 2 }],
  ])('sees when %s', (_, changes) => {
    const rule = 'an event has one effect, and nothing else has one'
    expect(rulesBroken(doctored('c1', changes))).toEqual([rule])
  })

  it('sees a secret in a log and a rejection', () => {
    const history = { ...sound, leaks: ['a line'], crashes: ['a rejection'] }
    expect(rulesBroken(history)).toEqual(['nothing crashes', 'no log holds a secret'])
  })
})

describe('a store that is not what it should be', () => {
  const broken = (changes: (setup: Setup) => Partial<Setup>): Setup => {
    const setup = memorySetup()
    return { ...setup, ...changes(setup) }
  }
  const found = async (setup: Setup, plan: Plan = PLAN): Promise<readonly string[]> =>
    violationsOf(await play(plan, [setup])).map(ruleOf)

  it('is found if it changes a byte of a body', async () => {
    const setup = broken(({ letters }) => ({
      letters: async (consumer) =>
        (await letters(consumer)).map((letter) => {
          const body = Uint8Array.from(letter.delivery.body, (byte) => byte ^ 1)
          return { ...letter, delivery: { ...letter.delivery, body } }
        }),
    }))
    expect(await found(setup)).toContain('a dead letter is stored as it came')
  })

  it('is found if it logs a payload', async () => {
    const setup = broken(({ guard }) => ({
      guard: (options) =>
        guard({
          ...options,
          handle: (event) => {
            options.logger.debug({ payload: event.payload }, 'a run')
            options.handle(event)
          },
        }),
    }))
    expect(await found(setup)).toContain('no log holds a secret')
  })

  it('is found if it keeps the event loop busy', async () => {
    const setup = broken(({ guard }) => ({
      guard: (options) =>
        guard({
          ...options,
          handle: (event) => {
            const until = process.threadCpuUsage().user + 400_000
            while (process.threadCpuUsage().user < until);
            options.handle(event)
          },
        }),
    }))
    const plan = { ...PLAN, cases: PLAN.cases.slice(0, 1) }
    expect(await found(setup, plan)).toContain('the event loop goes on')
  })
})
