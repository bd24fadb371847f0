import { ConfigurationError, OncewardError } from '@onceward/core'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { setUp } from './fixtures/billing.ts'
import { bridgeEvent, kafkaRecord, snsRecord, sqsRecord } from './fixtures/events.ts'
import { lambdaEventBridge, lambdaKafka, lambdaSns, lambdaSqs } from './index.ts'

type Tree = { [name: string]: unknown }

/** Every path to a value inside, such as `Records.0.body`. */
function pathsOf(value: unknown): readonly (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, each]) => [
    [name],
    ...pathsOf(each).map((path) => [name, ...path]),
  ])
}

function replaced(value: unknown, [name = '', ...rest]: readonly string[], by: unknown): unknown {
  const copy = (Array.isArray(value) ? [...value] : { ...(value as Tree) }) as Tree
  if (rest.length > 0) copy[name] = replaced(copy[name], rest, by)
  else if (by === undefined) delete copy[name]
  else copy[name] = by
  return copy
}

const odd = fc.oneof(
  fc.constantFrom(undefined, null, '', 0, -1, 1e30, 'x', '[]', true, [], {}, [null], [[]], [300]),
  fc.string({ unit: 'binary' }),
  fc.jsonValue(),
)

const EVENTS = {
  lambdaSqs: [lambdaSqs, { Records: [sqsRecord({ id: 'a' }), sqsRecord({ id: 'b', group: 'g' })] }],
  lambdaKafka: [
    lambdaKafka,
    { records: { 'orders-0': [kafkaRecord({ laneKey: 'k' }), kafkaRecord({ offset: 1 })] } },
  ],
  lambdaSns: [
    lambdaSns,
    { Records: [snsRecord('a', '{"a":1}', { size: { Type: 'String', Value: 'x' } })] },
  ],
  lambdaEventBridge: [lambdaEventBridge, bridgeEvent('a', { a: 1 })],
} as const

// A function must not crash on what it gets, and must not call a message done that has left no trace.
test.each(Object.entries(EVENTS))(
  'property: %s answers an odd event, or refuses it with a typed error, and loses nothing',
  async (_, [wrap, event]) => {
    const change = fc.record({ path: fc.constantFrom(...pathsOf(event)), by: odd })
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 2 }), async (changes) => {
        let given: unknown = event
        for (const { by, path } of changes) {
          try {
            given = replaced(given, path, by)
          } catch {
            // An earlier change has removed the place.
          }
        }
        // Events are JSON.
        given = JSON.parse(JSON.stringify(given))
        const { effects, guard, inbox } = setUp()
        try {
          const answer = (await wrap(guard)(given as never)) as
            | { readonly batchItemFailures: readonly unknown[] }
            | undefined
          const { Records, records } = given as Tree
          const lists = Records === undefined ? Object.values(records ?? {}) : [Records]
          const sent = wrap === lambdaEventBridge ? 1 : lists.flat().length
          const kept = effects.length + inbox.deadLetters().length
          const failed = answer?.batchItemFailures.length ?? 0
          // Copies of one event leave one trace.
          if (sent > 0) expect(kept + failed).toBeGreaterThan(0)
        } catch (error) {
          if (!OncewardError.is(error)) throw error
          // A value that is no event of the source is refused before anything runs.
          if (error instanceof ConfigurationError) expect(effects).toEqual([])
        }
        await guard.close()
      }),
      { numRuns: 500 },
    )
  },
)
