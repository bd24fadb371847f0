import { describe, expect, it } from 'vitest'
import {
  counted,
  fresh,
  type InboxCapabilities,
  newEvent,
  type Open,
  registration,
  strangeToken,
  WINDOW_MS,
} from './inbox-under-test.ts'

/** The business transaction: which owner gets the event, and what remains of it. */
export function claimTests<Tx>(open: Open<Tx>, capabilities: InboxCapabilities): void {
  describe('a business transaction', () => {
    it('shows its event to others only after the commit', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent()
      const transaction = await steps.begin(fresh(event))
      expect(await steps.known(event)).toEqual({ kind: 'absent' })
      await transaction.commit({ results: new Map(), recovered: [] })
      const { fingerprint } = event
      expect(await steps.known(event)).toMatchObject({ kind: 'done', fingerprint })
    })

    it('leaves nothing behind when it is rolled back', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent()
      await (await steps.begin(fresh(event))).rollback()
      expect(await steps.known(event)).toEqual({ kind: 'absent' })
      await steps.commit(fresh(event))
    })

    it('claims the new events of a batch and leaves out the done ones', async () => {
      await using opened = await open()
      const { session } = opened.steps
      const [old, next] = [newEvent(), newEvent()]
      await opened.steps.commit(fresh(old))
      const begun = await session.begin(fresh(old, next))
      expect(begun).toMatchObject({ kind: 'open', claimed: new Set([next.id]) })
      if (begun.kind === 'open') await begun.transaction.rollback()
    })

    it('of a claim that takes nothing may return the done events as stored', async () => {
      await using opened = await open()
      const { steps } = opened
      const { session } = steps
      const [done, told, running] = [newEvent(), newEvent(), newEvent()]
      await steps.commit(fresh(done))
      const begun = await session.begin(fresh(told))
      if (begun.kind !== 'open') throw new Error('the second event could not be claimed')
      await begun.transaction.commit({
        results: new Map([[told.id, '{"n":[1,null]}']]),
        recovered: [],
      })
      await steps.suspect(running)
      const claim = [running, told, done]
      const answer = await session.begin(fresh(...claim))
      const known = await session.classify(claim)
      expect(known).toMatchObject([
        { kind: 'running' },
        { result: { n: [1, null] } },
        { kind: 'done' },
      ])
      const asStored = (each: object | undefined) => ({ ...each, ageMs: expect.any(Number) })
      expect(answer).toEqual({
        kind: 'none',
        done: 'done' in answer ? [undefined, asStored(known[1]), asStored(known[2])] : undefined,
      })
    })

    // Red when the state is part of the key, or a count takes any state but the one it expects.
    it('trap T2: a done event is never claimed again', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent()
      await steps.commit(fresh(event))
      expect(await steps.session.begin(fresh(event))).toMatchObject({ kind: 'none' })
      expect(await steps.session.suspect([event], 50)).toEqual({
        kind: 'answered',
        counted: [undefined],
      })
      expect(await steps.session.count([event], 'alone')).toEqual([{ kind: 'changed' }])
    })

    // Red when age alone makes a row claimable, or is taken from the first attempt rather than the last count.
    it('trap T6: a done event never becomes claimable over time, and neither does a recently counted one', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const [done, running] = [newEvent(), newEvent()]
      await steps.commit(fresh(done))
      await steps.suspect(running)
      await subject.pass(WINDOW_MS / 2)
      expect(await steps.session.begin(fresh(done))).toMatchObject({ kind: 'none' })
      // Recently counted, although its first attempt was long ago.
      await steps.countAlone(running)
      expect(await steps.session.count([running], 'alone')).toEqual([{ kind: 'held' }])
    })

    it('answers held while another transaction holds the event', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent()
      const first = await steps.begin(fresh(event))
      expect(await steps.session.begin({ ...fresh(event), waitMs: 60 })).toEqual({ kind: 'held' })
      expect(await steps.session.suspect([event], 30)).toEqual({ kind: 'held' })
      await first.rollback()
      await steps.commit(fresh(event))
    })

    it('stores a result and gives it to duplicates, NUL and lone surrogate included', async () => {
      await using opened = await open()
      const { steps } = opened
      const [event, nothing] = [newEvent(), newEvent()]
      const result = { total: 3.5, text: 'a\0b\ud800"\\', list: [null, true] }
      const results = new Map([
        [event.id, JSON.stringify(result)],
        [nothing.id, 'null'],
      ])
      await steps.commit(fresh(event, nothing), results)
      expect(await steps.known(event)).toMatchObject({ kind: 'done', result })
      expect(await steps.known(nothing)).toMatchObject({ kind: 'done', result: null })
    })

    it('takes a counted event only with the token of its count', async () => {
      await using opened = await open()
      const { steps } = opened
      const mine = await steps.suspect(newEvent())
      const stranger = { ...mine, token: strangeToken() }
      expect(await steps.session.begin(counted(stranger))).toEqual({ kind: 'none' })
      await steps.commit(counted(mine))
      expect(await steps.known(mine.event)).toMatchObject({ kind: 'done' })
    })

    it('claims nothing with the token of a replaced owner', async () => {
      await using opened = await open()
      const { steps } = opened
      const old = await steps.suspect(newEvent())
      const successor = await steps.countAlone(old.event)
      expect(await steps.session.begin(counted(old))).toEqual({ kind: 'none' })
      await steps.commit(counted(successor))
    })

    it('can be opened without a claim', async () => {
      await using opened = await open()
      const { session } = opened.steps
      const begun = await session.begin({ claim: { kind: 'none' }, waitMs: 50, budgetMs: 5_000 })
      expect(begun).toMatchObject({ kind: 'open', claimed: new Set() })
      if (begun.kind === 'open') await begun.transaction.rollback()
    })
  })

  describe('several guards on one inbox', () => {
    it('see the same events and the same secret', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const other = await subject.inbox.open(registration(subject.runtime))
      const event = newEvent()
      await steps.commit(fresh(event))
      expect(await other.begin(fresh(event))).toMatchObject({ kind: 'none' })
      expect(other.secret).toEqual(steps.session.secret)
      expect(await other.identity()).toBe(await steps.session.identity())
      expect(other.secret.byteLength).toBeGreaterThanOrEqual(16)
    })

    it('of one consumer get a warning if their fingerprint rules differ', async () => {
      await using opened = await open()
      const { subject } = opened
      const told: object[] = []
      const { logger, ...rest } = registration(subject.runtime, { fingerprintRule: 2 })
      const warn = (fields: object): void => void told.push(fields)
      await subject.inbox.open({ ...rest, logger: { ...logger, warn } })
      expect(told).toHaveLength(1)
      expect(told[0]).toMatchObject({ consumer: 'billing' })
    })
  })

  describe('the sweep', () => {
    // Red when the sweep checks only the age: it would delete events that are still being tried, and dead ones.
    it('trap T23: deletes done events after their window and not before, and deletes nothing else', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const sweepAll = async (): Promise<number> => {
        let deleted = 0
        for (;;) {
          const step = await steps.session.sweep()
          deleted += step?.deleted ?? 0
          if (step?.finished !== false) return deleted
        }
      }
      const [old, running, dead] = [newEvent(), newEvent(), newEvent()]
      await steps.commit(fresh(old), new Map([[old.id, '1']]))
      await steps.suspect(running)
      await steps.buried(dead)
      await subject.pass(WINDOW_MS - 60_000)
      const young = newEvent()
      await steps.commit(fresh(young))
      expect(await sweepAll()).toBe(0)
      await subject.pass(120_000)
      expect(await sweepAll()).toBe(capabilities.forgetsByItself === true ? 0 : 1)
      const known = await steps.session.classify([old, young, running, dead])
      expect(known.map(({ kind }) => kind)).toEqual(['absent', 'done', 'running', 'dead'])
    })
  })
}
