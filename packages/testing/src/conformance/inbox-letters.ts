import type { DeadLetter, EventKey, Fingerprint } from '@onceward/core/ports'
import { describe, expect, it } from 'vitest'
import {
  counted,
  type InboxCapabilities,
  MAX_ATTEMPTS,
  NOT_YOUNG_MS,
  newDelivery,
  newEvent,
  type Open,
  RIGHT_MS,
  registration,
} from './inbox-under-test.ts'

/** Dead letters, refused messages and parked events. */
export function letterTests<Tx>(open: Open<Tx>, capabilities: InboxCapabilities): void {
  buriedTests(open, capabilities)
  refusedTests(open)
  parkedTests(open)
}

function buriedTests<Tx>(open: Open<Tx>, capabilities: InboxCapabilities): void {
  describe('a dead letter', () => {
    it('is published once, with its event, its reason and its delivery', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent({
        tenant: 'acme',
        delivery: newDelivery({
          messageId: 'm-1',
          orderingKey: 'lane',
          contentType: 'application/json',
          producedAt: new Date('2026-01-02T03:04:05.678Z'),
        }),
      })
      const ref = await steps.buried(event)
      const letter = await steps.published(ref)
      expect(letter).toMatchObject({
        ...{ ref, consumer: 'billing', key: event.key, reason: 'fatal', attempts: 1 },
        delivery: event.delivery,
      })
      expect(letter?.error).toMatch(/no such account/)
      expect(await steps.known(event)).toMatchObject({ kind: 'dead', published: true })
      expect(await steps.session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'already' })
    })

    it('keeps hostile characters of keys, headers and bodies, and stores any error', async () => {
      await using opened = await open()
      const { steps } = opened
      const hostile = 'a\0b\u0001"\\\ud800\u{1f600}\u2028é'
      const headers = JSON.parse('{"__proto__":"own","x":""}') as Record<string, string>
      headers['nul'] = hostile
      const body = Uint8Array.from({ length: 512 }, (_, index) => index % 256)
      const event = newEvent({
        key: `k\0"\\\u{1f600}é` as EventKey,
        tenant: 't\0',
        fingerprint: -0x8000_0000_0000_0000n as Fingerprint,
        delivery: newDelivery({ headers, body, messageId: hostile, orderingKey: '\0' }),
      })
      const { token } = await steps.suspect(event)
      const error = new Error(`NUL \0 and \ud800 in ${'long '.repeat(5_000)}`)
      const burial = { event, token, attempt: 1, error, reason: 'fatal' } as const
      expect(await steps.session.bury([burial])).toEqual(['recorded'])
      const letter = await steps.published({ kind: 'event', id: event.id })
      expect(letter?.key).toBe(event.key)
      expect({ ...letter?.delivery.headers }).toEqual({ ...headers })
      expect(letter?.delivery.body).toEqual(body)
      expect(letter?.delivery.messageId).toBe(hostile)
      expect(await steps.known(event)).toMatchObject({ fingerprint: event.fingerprint })
    })

    it('is reported as gone if the event is not dead', async () => {
      await using opened = await open()
      const { steps } = opened
      const { event } = await steps.suspect(newEvent())
      for (const one of [event, newEvent()]) {
        const ref = { kind: 'event', id: one.id } as const
        expect(await steps.session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'gone' })
      }
    })

    if (capabilities.storesBytes) {
      it('keeps a body of a mebibyte in full', async () => {
        await using opened = await open()
        const { steps } = opened
        const body = new Uint8Array(1024 * 1024).map((_, index) => (index * 31) % 251)
        const ref = await steps.buried(newEvent({ delivery: newDelivery({ body }) }))
        const letter = await steps.published(ref)
        expect(Buffer.from(letter?.delivery.body ?? []).equals(Buffer.from(body))).toBe(true)
      })
    }
  })
}

function refusedTests<Tx>(open: Open<Tx>): void {
  describe('a refused message', () => {
    it('is one dead letter however often it is delivered, and is published once', async () => {
      await using opened = await open()
      const { steps } = opened
      const delivery = newDelivery({ messageId: 'm-1' })
      const refusal = { delivery, reason: 'missing-event-key', error: new Error('none') } as const
      const [first] = await steps.session.refuse([refusal])
      const again = { ...delivery, redelivered: true, deliveryCount: 7 }
      const [second] = await steps.session.refuse([{ ...refusal, delivery: again }])
      expect(second).toEqual(first)
      if (first === undefined) throw new Error('refuse() gave no answer')
      const letter = await steps.published(first)
      expect(letter).toMatchObject({ ref: first, reason: 'missing-event-key', attempts: 0 })
      // The reason may change, because other options may find another problem first.
      expect(await steps.session.refuse([{ ...refusal, reason: 'invalid-payload' }])).toEqual([
        first,
      ])
      expect(await steps.session.takePublishing(first, RIGHT_MS)).toEqual({ kind: 'already' })
    })

    it('is distinguished from other refused messages and from the event with its key', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent()
      const reason = 'fingerprint-mismatch'
      const refused = await steps.session.refuse([
        { delivery: event.delivery, reason, error: undefined, key: event.key },
        { delivery: newDelivery(), reason, error: undefined, key: `\0\ud800${event.key}` },
        { delivery: event.delivery, reason, error: undefined, key: event.key },
      ])
      expect(new Set(refused.map(({ id }) => id)).size).toBe(2)
      expect(refused[2]).toEqual(refused[0])
      expect(await steps.known(event)).toEqual({ kind: 'absent' })
    })

    it('becomes due without an identity when it is replayed, until it is resolved', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const delivery = newDelivery({ headers: { 'x-late': 'fixed' } })
      const refusal = { delivery, reason: 'invalid-payload', error: 'bad' } as const
      const [ref] = await steps.session.refuse([refusal])
      if (ref === undefined) throw new Error('refuse() gave no answer')
      expect(await steps.session.due(10)).toEqual([])
      await subject.replay(ref)
      const due = await steps.session.due(10)
      expect(due).toMatchObject([{ ref, what: 'run', delivery }])
      expect(due[0]?.identity).toBeUndefined()
      await steps.session.resolveRefused(ref.id)
      await subject.pass(3_600_000)
      expect(await steps.session.due(10)).toEqual([])
    })
  })
}

function parkedTests<Tx>(open: Open<Tx>): void {
  describe('a replayed event', () => {
    it('is due at once with its stored identity and delivery, and runs alone', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const event = newEvent({ tenant: 'acme' })
      const ref = await steps.buried(event)
      await steps.published(ref)
      expect(await steps.session.due(10)).toEqual([])
      await subject.replay(ref)
      const waiting = { kind: 'waiting', attempt: 0, remainingMs: 0, alone: true }
      expect(await steps.known(event)).toMatchObject(waiting)
      const { delivery, ...identity } = event
      expect(await steps.session.due(10)).toMatchObject([{ ref, what: 'run', delivery, identity }])
      expect(await steps.session.count([event], 'together')).toEqual([{ kind: 'changed' }])
      const [answer] = await steps.session.count([event], 'alone')
      if (answer?.kind !== 'counted') throw new Error(`expected a count, got ${answer?.kind}`)
      expect(answer.attempt).toBe(1)
      await steps.commit(counted({ event, token: answer.token, attempt: 1 }))
      expect(await steps.session.due(10)).toEqual([])
    })

    it('stays parked if its run is released or its process dies', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const event = newEvent()
      const ref = await steps.buried(event)
      await subject.replay(ref)
      const { token } = await steps.countAlone(event)
      expect(await steps.session.due(10)).toEqual([])
      await steps.session.release([{ event, token, as: 'given-back' }])
      const waiting = { kind: 'waiting', attempt: 0, remainingMs: 0 }
      expect(await steps.known(event)).toMatchObject(waiting)
      expect(await steps.session.due(10)).toMatchObject([{ ref, what: 'run' }])
      await steps.countAlone(event)
      await subject.pass(NOT_YOUNG_MS)
      expect(await steps.session.due(10)).toMatchObject([{ ref, what: 'run' }])
    })

    it('is not due while a transaction locks it', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const event = newEvent()
      await subject.replay(await steps.buried(event))
      const mine = await steps.countAlone(event)
      await subject.pass(NOT_YOUNG_MS)
      const transaction = await steps.begin(counted(mine))
      expect(await steps.session.due(10)).toEqual([])
      await transaction.rollback()
      expect(await steps.session.due(10)).toHaveLength(1)
    })

    it('is offered for publishing once if it dies again', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const event = newEvent()
      const ref = await steps.buried(event)
      await steps.published(ref)
      await subject.replay(ref)
      for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) await steps.countAlone(event)
      await subject.pass(NOT_YOUNG_MS)
      expect(await steps.session.count([event], 'alone')).toMatchObject([{ kind: 'buried' }])
      const [due] = await steps.session.due(10)
      expect(due).toMatchObject({ ref, what: 'publish' })
      const letter: DeadLetter | undefined = await steps.published(ref)
      expect(letter).toMatchObject({ reason: 'attempts-spent', delivery: event.delivery })
      await subject.pass(3_600_000)
      expect(await steps.session.due(10)).toEqual([])
    })

    it('keeps its delivery although a copy is buried, and is due only for its own consumer', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const event = newEvent()
      const ref = await steps.buried(event)
      const refusal = { delivery: newDelivery(), reason: 'invalid-payload', error: 'bad' } as const
      const [refused] = await steps.session.refuse([refusal])
      if (refused === undefined) throw new Error('refuse() gave no answer')
      await subject.replay(ref)
      await subject.replay(refused)
      const other = registration(subject.runtime, { consumer: 'mailing' })
      expect(await (await subject.inbox.open(other)).due(10)).toEqual([])
      const { token, attempt } = await steps.countAlone(event)
      const source = { broker: 'kafka', queue: 'copies', position: '1' } as const
      const copy = { ...event, delivery: newDelivery({ source, body: new Uint8Array(1) }) }
      const burial = { event: copy, token, attempt, error: 'x', reason: 'fatal' } as const
      expect(await steps.session.bury([burial])).toEqual(['recorded'])
      expect(await steps.published(ref)).toMatchObject({ delivery: event.delivery })
    })

    it('is not run again by a second replay once it is done', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const event = newEvent()
      const ref = await steps.buried(event)
      await subject.replay(ref)
      await steps.commit(counted(await steps.countAlone(event)))
      await subject.replay(ref)
      expect(await steps.known(event)).toMatchObject({ kind: 'done' })
      expect(await steps.session.due(10)).toEqual([])
    })
  })
}
