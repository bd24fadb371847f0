import type { Fingerprint } from '@onceward/core/ports'
import { describe, expect, it } from 'vitest'
import {
  counted,
  fresh,
  type InboxCapabilities,
  NOT_YOUNG_MS,
  newDelivery,
  newEvent,
  type Open,
} from './inbox-under-test.ts'

const WAIT_MS = 60
/** Longer than what the tests let pass. */
const DELAY_MS = 60_000

/** Events that are stored as they come, so that the poller of a guard runs them. */
export function parkingTests<Tx>(open: Open<Tx>, capabilities: InboxCapabilities): void {
  describe('a parked event', () => {
    it('is due at once with its identity and its delivery, and runs beside others as attempt 1', async () => {
      await using opened = await open()
      const { steps } = opened
      const body = Uint8Array.from({ length: 512 }, (_, index) => index % 256)
      const envelope = Uint8Array.from({ length: 256 }, (_, index) => index)
      const delivery = newDelivery({ body, envelope, messageId: 'm\0', contentType: 'a/b' })
      const event = newEvent({ tenant: 'acme', delivery })
      expect(await steps.session.park([event], WAIT_MS)).toEqual([{ kind: 'parked' }])
      const waiting = { kind: 'waiting', attempt: 0, remainingMs: 0, alone: false }
      expect(await steps.known(event)).toMatchObject({ ...waiting, fingerprint: event.fingerprint })
      const { delivery: _, ...identity } = event
      const ref = { kind: 'event', id: event.id }
      expect(await steps.session.due(10)).toMatchObject([{ ref, what: 'run', delivery, identity }])
      const [answer] = await steps.session.count([event], 'together')
      if (answer?.kind !== 'counted') throw new Error(`expected a count, got ${answer?.kind}`)
      expect(answer.attempt).toBe(1)
      await steps.commit(counted({ event, token: answer.token, attempt: 1 }))
      expect(await steps.known(event)).toMatchObject({ kind: 'done' })
      expect(await steps.session.due(10)).toEqual([])
    })

    it('is parked once, whatever it does when it comes again', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent()
      const again = async () => {
        const [answer] = await steps.session.park([event], WAIT_MS)
        return answer?.kind === 'known' ? answer.known : answer
      }
      const both = await Promise.all([again(), again()])
      expect(both.map((answer) => answer?.kind).toSorted()).toEqual(['parked', 'waiting'])
      const mine = await steps.countAlone(event)
      expect(await again()).toMatchObject({ kind: 'running', attempt: 1 })
      const transaction = await steps.begin(counted(mine))
      // The run may take long, so its row is not waited for.
      expect(await again()).toMatchObject({ kind: 'running', attempt: 1 })
      await transaction.commit({ results: new Map(), recovered: [event.id] })
      expect(await again()).toMatchObject({ kind: 'done' })
      const dead = newEvent()
      await steps.buried(dead)
      expect(await steps.session.park([dead], WAIT_MS)).toMatchObject([
        { kind: 'known', known: { kind: 'dead', reason: 'fatal' } },
      ])
      expect(await steps.session.due(10)).toEqual([])
    })

    it('stays parked while its runs fail, and is dead-lettered with its delivery', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const event = newEvent()
      await steps.session.park([event], WAIT_MS)
      const { attempt, token } = await steps.countAlone(event)
      const failure = { event, token, attempt, error: 'busy', delayMs: DELAY_MS }
      expect(await steps.session.fail([failure])).toEqual(['recorded'])
      expect(await steps.session.due(10)).toEqual([])
      await subject.pass(DELAY_MS + 1)
      expect(await steps.session.due(10)).toMatchObject([{ what: 'run' }])
      const second = await steps.countAlone(event)
      const [released] = await steps.session.release([{ ...second, as: 'given-back' }])
      expect(released).toBe('recorded')
      expect(await steps.session.due(10)).toMatchObject([{ what: 'run' }])
      const last = await steps.countAlone(event)
      const copy = { ...event, delivery: newDelivery({ body: new Uint8Array(1) }) }
      const burial = { ...last, event: copy, error: 'why', reason: 'fatal' } as const
      expect(await steps.session.bury([burial])).toEqual(['recorded'])
      const letter = await steps.published({ kind: 'event', id: event.id })
      expect(letter).toMatchObject({ reason: 'fatal', delivery: event.delivery })
    })

    it('is due again if the process that runs it dies', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const event = newEvent()
      await steps.session.park([event], WAIT_MS)
      await steps.session.count([event], 'together')
      expect(await steps.session.due(10)).toEqual([])
      await subject.pass(NOT_YOUNG_MS)
      expect(await steps.session.due(10)).toMatchObject([{ what: 'run' }])
    })

    it('is held while a transaction inserts it, and is not parked once that one has committed', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent()
      const transaction = await steps.begin(fresh(event))
      expect(await steps.session.park([event], WAIT_MS)).toEqual([{ kind: 'held' }])
      await transaction.commit({ results: new Map(), recovered: [] })
      expect(await steps.session.park([event], WAIT_MS)).toMatchObject([
        { kind: 'known', known: { kind: 'done' } },
      ])
      expect(await steps.session.due(10)).toEqual([])
    })

    it('is answered with the fingerprint that is stored, so that a conflict is seen', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent()
      await steps.session.park([event], WAIT_MS)
      const other = { ...event, fingerprint: 0x4321_5678_9abc_de01n as Fingerprint }
      expect(await steps.session.park([other], WAIT_MS)).toMatchObject([
        { kind: 'known', known: { kind: 'waiting', fingerprint: event.fingerprint } },
      ])
    })
  })

  storedLater(open)
  if (capabilities.storesBytes) {
    it('a parked event keeps a body of three mebibytes in full', async () => {
      await using opened = await open()
      const { session } = opened.steps
      const body = new Uint8Array(3 * 1024 * 1024).map((_, index) => (index * 31) % 251)
      await session.park([newEvent({ delivery: newDelivery({ body }) })], WAIT_MS)
      const [due] = await session.due(10)
      expect(Buffer.from(due?.delivery.body ?? []).equals(Buffer.from(body))).toBe(true)
    })
  }
}

/** Red when a caller is told that an event is parked, and nobody has its delivery. */
function storedLater<Tx>(open: Open<Tx>): void {
  describe('an event that waits or runs without a stored delivery', () => {
    it('gets the delivery of the next one that parks it, and keeps its attempts and its wait', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const event = newEvent()
      const { attempt, token } = await steps.suspect(event)
      await steps.session.fail([{ event, token, attempt, error: 'busy', delayMs: DELAY_MS }])
      expect(await steps.session.park([event], WAIT_MS)).toEqual([{ kind: 'parked' }])
      expect(await steps.known(event)).toMatchObject({ kind: 'waiting', attempt: 1 })
      expect(await steps.session.due(10)).toEqual([])
      await subject.pass(DELAY_MS + 1)
      const { delivery } = event
      expect(await steps.session.due(10)).toMatchObject([{ what: 'run', delivery }])
      expect(await steps.session.park([event], WAIT_MS)).toMatchObject([{ kind: 'known' }])
    })

    it('is run by a poller if its process died, and its own process still commits', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const [dies, lives] = [await steps.suspect(newEvent()), await steps.suspect(newEvent())]
      const parked = await steps.session.park([dies.event, lives.event], 2 * WAIT_MS)
      expect(parked).toEqual([{ kind: 'parked' }, { kind: 'parked' }])
      expect(await steps.session.due(10)).toEqual([])
      await steps.commit(counted(lives))
      await subject.pass(NOT_YOUNG_MS)
      expect(await steps.session.due(10)).toMatchObject([
        { ref: { kind: 'event', id: dies.event.id }, what: 'run', delivery: dies.event.delivery },
      ])
    })

    it('is held while a transaction changes its row', async () => {
      await using opened = await open()
      const { steps } = opened
      const mine = await steps.suspect(newEvent())
      const transaction = await steps.begin(counted(mine))
      expect(await steps.session.park([mine.event], WAIT_MS)).toEqual([{ kind: 'held' }])
      await transaction.rollback()
      expect(await steps.session.park([mine.event], WAIT_MS)).toEqual([{ kind: 'parked' }])
    })

    it('does not get the delivery of another payload', async () => {
      await using opened = await open()
      const { steps } = opened
      const { event } = await steps.suspect(newEvent())
      const other = { ...event, fingerprint: 0x4321_5678_9abc_de01n as Fingerprint }
      expect(await steps.session.park([other], WAIT_MS)).toMatchObject([
        { kind: 'known', known: { kind: 'running', fingerprint: event.fingerprint } },
      ])
      expect(await steps.session.park([event], WAIT_MS)).toEqual([{ kind: 'parked' }])
    })
  })
}
