import { describe, expect, it } from 'vitest'
import { setUp } from '../../fixtures/guard.ts'
import { sentId } from '../../handler/outbox.ts'
import { createBatchGuard, createGuard, type Outbox, type OutboxMessage } from '../../index.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'

const delivery = (key: string, copies = {}) =>
  toDelivery({ key }, { headers: { 'idempotency-key': key }, ...copies })

/** A guard whose handler sends what it is told to. */
function sending(...messages: readonly unknown[]) {
  const inbox = memoryInbox()
  const errors: unknown[] = []
  const guard = createGuard({ consumer: 'billing', inbox }, (_event, { outbox }) => {
    try {
      for (const message of messages) outbox.send(message as OutboxMessage)
    } catch (error) {
      errors.push(error)
      throw error
    }
  })
  return { errors, guard, inbox }
}

describe('the outbox of a handler', () => {
  it('takes what JSON writes as it is meant: dates, objects of a class, fields that are undefined', async () => {
    class Paid {
      readonly cents = 1
      readonly note = undefined
    }
    const payload = { at: new Date(0), paid: new Paid(), none: {}, list: [[]], nothing: null }
    const { guard, inbox } = sending({ to: 'a', payload })
    expect((await guard.process(delivery('e-1'))).kind).toBe('ack')
    expect(inbox.sent()[0]?.payload).toEqual({
      ...{ at: '1970-01-01T00:00:00.000Z', paid: { cents: 1 }, none: {}, list: [[]] },
      nothing: null,
    })
    await guard.close()
  })

  // Red before: the text left with its quotes.
  it('takes a text whose content type is no JSON as it is, and guards read either', async () => {
    const payloads: unknown[] = []
    const receiver = createGuard({ consumer: 'mails', inbox: memoryInbox() }, ({ payload }) => {
      payloads.push(payload)
    })
    const types = [undefined, 'application/json', 'Application/vnd.a+JSON; charset=utf-8']
    const messages = [...types, 'text/plain', 'text/plain; charset=utf-8'].map((type) => ({
      ...{ to: 'a', payload: 'Hello, "ü"' },
      headers: type === undefined ? {} : { 'Content-Type': type },
    }))
    const { guard, inbox } = sending(...messages)
    expect((await guard.process(delivery('e-1'))).kind).toBe('ack')
    const sent = inbox.sent()
    expect(sent.map(({ payload }) => payload)).toEqual([
      ...types.map(() => 'Hello, "ü"'),
      Buffer.from('Hello, "ü"'),
      Buffer.from('Hello, "ü"'),
    ])
    for (const { headers, id, payload } of sent) {
      const body = payload instanceof Uint8Array ? payload : Buffer.from(JSON.stringify(payload))
      const contentType = headers['Content-Type']
      const received = toDelivery(null, { body, contentType, headers: { 'idempotency-key': id } })
      expect((await receiver.process(received)).kind).toBe('ack')
    }
    expect(payloads).toEqual(messages.map(({ payload }) => payload))
    await guard.close()
    await receiver.close()
  })

  it('writes in JSON only what every broker takes, which means the same', async () => {
    const inbox = memoryInbox()
    const guard = createGuard({ consumer: 'billing', inbox }, ({ payload }, { outbox }) => {
      outbox.send({ to: 'a', payload })
    })
    const payload = { '\uffff': 'a\ufffe\u0000\ud800😀', text: '\\uffff' }
    await guard.process(toDelivery(payload, { headers: { 'idempotency-key': 'e-1' } }))
    expect(inbox.sent()[0]?.payload).toEqual(payload)
    await guard.close()
  })

  it('writes what was sent with the commit, as it was when it was sent', async () => {
    const inbox = memoryInbox()
    const guard = createGuard({ consumer: 'billing', inbox }, (_event, { outbox }) => {
      const payload = { cents: 1, big: 2n ** 60n }
      const bytes = Uint8Array.of(1, 2)
      outbox.send({ to: 'payments', key: 'o-1', payload, headers: { a: 'b' }, delayMs: 5 })
      outbox.send({ to: 'files', payload: bytes, type: 'file.made', id: 'mine' })
      payload.cents = 2
      bytes[0] = 9
      expect(inbox.sent()).toEqual([])
    })
    expect((await guard.process(delivery('e-1'))).kind).toBe('ack')
    await guard.process(delivery('e-1'))
    const [first, second, ...others] = inbox.sent()
    expect(first).toEqual({
      ...{ id: expect.stringMatching(/^[\da-f]{8}-[\da-f]{4}-5[\da-f]{3}-[89ab][\da-f]{3}-/) },
      ...{ to: 'payments', key: 'o-1', payload: { cents: 1, big: 2n ** 60n }, type: 'payments' },
      ...{ headers: { a: 'b' }, delayMs: 5 },
    })
    expect(second).toMatchObject({ id: 'mine', payload: Uint8Array.of(1, 2), type: 'file.made' })
    expect(others).toEqual([])
    await guard.close()
  })

  it('leaves out the headers of onceward, which a handler may have copied from a dead letter', async () => {
    const headers = { a: 'b', 'x-onceward-item': '0', 'X-Onceward-Error': 'a line\nand another' }
    const { errors, guard, inbox } = sending({ to: 'payments', payload: 1, headers })
    expect((await guard.process(delivery('e-1'))).kind).toBe('ack')
    expect([errors, inbox.sent()]).toMatchObject([[], [{ headers: { a: 'b' } }]])
    expect(inbox.sent()[0]?.headers).toEqual({ a: 'b' })
    await guard.close()
  })

  it('sends nothing of a run that fails, and the next run gives the same ids', async () => {
    const ids: string[] = []
    let runs = 0
    const { guard, inbox, shift } = setUp((event, { outbox }) => {
      ids.push(sentId([event.idempotencyKey], 1))
      outbox.send({ to: 'payments', payload: 1 })
      runs += 1
      if (runs === 1) throw new Error('no')
    })
    await guard.process(delivery('e-1'))
    expect(inbox.sent()).toEqual([])
    shift.forward(3_600_000)
    await guard.process(delivery('e-1', { deliveryCount: 2 }))
    expect(ids[1]).toBe(ids[0])
    expect(inbox.sent().map(({ id }) => id)).toEqual([ids[0]])
    await guard.close()
  })

  it('sends the messages of a batch once, although it was bisected', async () => {
    const inbox = memoryInbox()
    const guard = createGuard(
      { consumer: 'billing', inbox, transaction: 'batch', retry: { attempts: 1 } },
      ({ key }, { outbox }) => {
        outbox.send({ to: 'payments', payload: key })
        if (key === 'bad') throw new Error('no')
      },
    )
    await guard.processBatch(['a', 'bad', 'b'].map((key) => delivery(key)))
    expect(inbox.sent().map(({ payload }) => payload)).toEqual(['a', 'b'])
    await guard.close()
  })

  it('names the messages of a handler for batches by all of its events', async () => {
    const inbox = memoryInbox()
    const ids: string[] = []
    const guard = createBatchGuard({ consumer: 'billing', inbox }, (events, { outbox }) => {
      ids.push(
        sentId(
          events.map(({ idempotencyKey }) => idempotencyKey),
          1,
        ),
      )
      outbox.send({ to: 'payments', payload: events.length })
    })
    await guard.processBatch([delivery('a'), delivery('b')])
    expect(inbox.sent()).toMatchObject([{ id: ids[0], payload: 2 }])
    expect(ids[0]).not.toBe(sentId([ids[0] ?? ''], 1))
    await guard.close()
  })

  it('gives messages of an event without a key ids that differ', async () => {
    const inbox = memoryInbox()
    const guard = createGuard(
      { consumer: 'billing', inbox, onMissingKey: 'unguarded' },
      (_event, { outbox }) => outbox.send({ to: 'payments', payload: 1 }),
    )
    await guard.process(toDelivery({}))
    await guard.process(toDelivery({}))
    expect(new Set(inbox.sent().map(({ id }) => id)).size).toBe(2)
    await guard.close()
  })

  it('refuses to send after the end of its run', async () => {
    let kept: Outbox | undefined
    const inbox = memoryInbox()
    const guard = createGuard({ consumer: 'billing', inbox }, (_event, { outbox }) => {
      kept = outbox
    })
    await guard.process(delivery('e-1'))
    const late = (): void => kept?.send({ to: 'payments', payload: 1 })
    expect(late).toThrow(expect.objectContaining({ code: 'ONCEWARD_OUTBOX' }))
    expect(inbox.sent()).toEqual([])
    await guard.close()
  })

  it('refuses without an inbox that stores messages', async () => {
    const errors: unknown[] = []
    const guard = createGuard(
      { consumer: 'billing', leases: memoryLeases(), onTakeover: 'retry' },
      (_event, { outbox }) => {
        try {
          outbox.send({ to: 'payments', payload: 1 })
        } catch (error) {
          errors.push(error)
        }
      },
    )
    await guard.process(delivery('e-1'))
    expect(errors).toEqual([expect.objectContaining({ code: 'ONCEWARD_CONFIGURATION' })])
    await guard.close()
  })

  const circular: unknown[] = []
  circular.push(circular)
  it.each([
    ['no object', undefined],
    ['a field that it does not know', { to: 'a', payload: 1, dealyMs: 1 }],
    ['no destination', { payload: 1 }],
    ['a destination with a space', { to: 'a b', payload: 1 }],
    ['no payload', { to: 'a' }],
    ['a payload that is no JSON', { to: 'a', payload: circular }],
    ['a promise as payload', { to: 'a', payload: Promise.resolve(1) }],
    ['a promise in a field', { to: 'a', payload: { rows: Promise.resolve(1) } }],
    ['a Map', { to: 'a', payload: new Map([[1, 2]]) }],
    ['a Set in a list', { to: 'a', payload: [new Set([1])] }],
    ['an ArrayBuffer', { to: 'a', payload: new ArrayBuffer(8) }],
    ['bytes in a field', { to: 'a', payload: { bytes: Uint8Array.of(1) } }],
    ['an Error', { to: 'a', payload: Object.assign(new Error('no'), { code: 1 }) }],
    ['NaN', { to: 'a', payload: Number.NaN }],
    ['an infinite number in a field', { to: 'a', payload: { n: Number.POSITIVE_INFINITY } }],
    ['a date that is none', { to: 'a', payload: { at: new Date(Number.NaN) } }],
    ['a function in a field', { to: 'a', payload: { run: () => 1 } }],
    ['an object without fields that is not plain', { to: 'a', payload: new WeakMap() }],
    ['a payload that is too large', { to: 'a', payload: new Uint8Array(1024 * 1024 + 1) }],
    ['an empty key', { to: 'a', payload: 1, key: '' }],
    ['a key that is too long', { to: 'a', payload: 1, key: 'k'.repeat(1_025) }],
    ['half of a character as key', { to: 'a', payload: 1, key: '\ud800' }],
    ['a header with a line break', { to: 'a', payload: 1, headers: { a: 'b\r\nc: d' } }],
    ['a header without a name', { to: 'a', payload: 1, headers: { '': 'b' } }],
    ['a header that names the message', { to: 'a', payload: 1, headers: { 'Ce-Id': 'b' } }],
    ['too many headers', { to: 'a', payload: 1, headers: manyHeaders() }],
    ['a delay in the past', { to: 'a', payload: 1, delayMs: -1 }],
    ['an id with a line break', { to: 'a', payload: 1, id: 'a\nb' }],
  ])('refuses %s at send, and nothing of the run is sent', async (_what, message) => {
    const { errors, guard, inbox } = sending({ to: 'a', payload: 1 }, message)
    await guard.process(delivery('e-1'))
    expect(errors).toEqual([expect.objectContaining({ code: 'ONCEWARD_OUTBOX' })])
    expect(inbox.sent()).toEqual([])
    await guard.close()
  })
})

function manyHeaders(): object {
  return Object.fromEntries(Array.from({ length: 65 }, (_, n) => [`h${n}`, 'v']))
}
