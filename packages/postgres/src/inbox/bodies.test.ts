import type { DeadLetterRef } from '@onceward/core'
import { newDelivery } from '@onceward/testing/conformance'
import { describe, expect, it } from 'vitest'
import { scriptedDriver, statements } from '../fixtures/scripted-driver.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import { storeDelivery } from '../statements/delivery-columns.ts'
import { isWhole, readStored } from './bodies.ts'
import { refuse, refusedId, resolveRefused } from './refused-messages.ts'

const MIB = 1024 * 1024
const ref: DeadLetterRef = { kind: 'refused', id: 'an-id' }
const body = Buffer.concat([2, 2, 1].map((mib, index) => Buffer.alloc(mib * MIB, index + 1)))
const large = newDelivery({ body })
const { lockBody, readPart, replaceDelivery, writePart } = statements.bodies.refused

describe('a dead letter', () => {
  it('holds a small delivery in its row', async () => {
    const { asked, context } = scriptedDriver()
    expect(await isWhole(context, ref, newDelivery())).toBe(true)
    expect(asked).toEqual([])
  })

  it.each<[string, readonly object[], boolean]>([
    ['it was stored whole', [{ isWhole: true }], true],
    ['an operator has dealt with it', [], true],
    ['it is still too large', [{ isWhole: false }], false],
  ])('of a large delivery is looked at: %s', async (_, rows, answer) => {
    const { asked, context } = scriptedDriver(rows)
    expect(await isWhole(context, ref, large)).toBe(answer)
    expect(asked).toEqual([{ by: 'short', text: lockBody, values: ['an-id'] }])
  })

  it('gets the delivery that was too large, when the bound has been raised', async () => {
    const { asked, context } = scriptedDriver([{ isWhole: false }])
    const maxStoredBytes = 8 * MIB
    expect(await isWhole({ ...context, maxStoredBytes }, ref, large)).toBe(true)
    expect(asked.map(({ text }) => text)).toEqual([
      ...[lockBody, replaceDelivery, writePart, writePart, writePart],
    ])
    expect(JSON.parse(String(asked[1]?.values?.[0]))).toEqual([
      { id: 'an-id', ...storeDelivery(large, maxStoredBytes) },
    ])
  })

  it('has no empty piece', async () => {
    const { asked, context } = scriptedDriver([{ isWhole: false }])
    const even = newDelivery({ body: body.subarray(0, 4 * MIB) })
    await isWhole({ ...context, maxStoredBytes: 8 * MIB }, ref, even)
    expect(asked.map(({ text }) => text).slice(2)).toEqual([writePart, writePart])
  })

  it('gives a body in pieces back as it was', async () => {
    const pieces = [0, 1, 2].map((at) => body.subarray(at * 2 * MIB, (at + 1) * 2 * MIB))
    const { asked, context } = scriptedDriver(...pieces.map((each) => [each.toString('base64')]))
    const stored = { ...ref, ...storeDelivery(large, 8 * MIB) } as unknown as DeadLetterRow
    const read = await readStored(statements, context.driver, stored)
    expect(Buffer.compare(read.body, body)).toBe(0)
    expect(asked.map(({ text, values }) => [text, values])).toEqual([
      [readPart, ['an-id', '0']],
      [readPart, ['an-id', '1']],
      [readPart, ['an-id', '2']],
    ])
  })
})

describe('a refused message', () => {
  const delivery = newDelivery()
  const id = refusedId(5, delivery)
  const error = Object.assign(new Error('why'), { stack: 'Error: why' })

  it('is stored once in a call, on disk, with what is known of it', async () => {
    const { asked, context } = scriptedDriver()
    const refusals = [
      { delivery, reason: 'invalid-payload', error, key: 'a"\0' },
      { delivery, reason: 'invalid-payload', error },
      { delivery: newDelivery({ messageId: 'other' }), reason: 'missing-event-key', error },
    ] as const
    const refs = await refuse(context, refusals)
    expect(refs.slice(0, 2)).toEqual([
      { kind: 'refused', id },
      { kind: 'refused', id },
    ])
    expect(asked.map(({ by, text }) => [by, text])).toEqual([
      ['durable', statements.refuse],
      ['durable', statements.refuse],
    ])
    expect(asked[0]?.values?.[1]).toBe('5')
    expect(JSON.parse(String(asked[0]?.values?.[0]))).toEqual([
      {
        ...{ id, reason: 'invalid-payload', error: 'Error: why', key: 'a\\"\\u0000' },
        ...storeDelivery(delivery, 1_000),
      },
    ])
    const [{ key, id: other }] = JSON.parse(String(asked[1]?.values?.[0]))
    expect([key, other]).toEqual([undefined, refs[2]?.id])
  })

  it('that is large is stored in pieces, in the transaction of its row', async () => {
    const { asked, context } = scriptedDriver()
    const refusal = { delivery: large, reason: 'invalid-payload', error } as const
    await refuse({ ...context, maxStoredBytes: 8 * MIB }, [refusal])
    expect(asked.map(({ by, text }) => [by, text])).toEqual([
      ['short', statements.refuse],
      ...[0, 1, 2].map(() => ['short', writePart]),
    ])
    expect(asked[1]?.values?.[0]).toBe(refusedId(5, large))
  })

  it('is deleted when its replay has ended', async () => {
    const { asked, context } = scriptedDriver()
    await resolveRefused(context, 'an-id')
    expect(asked).toEqual([{ by: 'query', text: statements.resolveRefused, values: ['an-id'] }])
  })
})
