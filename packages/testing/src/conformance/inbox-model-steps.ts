import fc from 'fast-check'

/** Whose token a step shows: of the last count of the event, of its first one, of nobody, or none. */
type Shown = 'last' | 'first' | 'strange' | 'none'

/** A statement to an inbox, or passing time. Events are numbers. */
export type Step =
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'suspect'; readonly events: readonly number[] }
  | { readonly kind: 'park'; readonly events: readonly number[] }
  | {
      readonly kind: 'count'
      readonly events: readonly number[]
      readonly run: 'together' | 'alone'
    }
  | {
      readonly kind: 'verdict'
      readonly verb: 'fail' | 'bury' | 'defer' | 'release'
      readonly events: readonly number[]
      readonly owner: Shown
      readonly as: 'given-back' | 'no-verdict'
    }
  | {
      readonly kind: 'begin'
      readonly claim: 'fresh' | 'counted'
      readonly events: readonly number[]
      readonly owner: Exclude<Shown, 'none'>
    }
  | { readonly kind: 'end'; readonly how: 'commit' | 'rollback' | 'fail' }
  | { readonly kind: 'take-publishing'; readonly event: number }
  | {
      readonly kind: 'end-publishing'
      readonly event: number
      readonly owner: 'last' | 'first'
      readonly as: 'published' | 'failed'
    }
  | { readonly kind: 'replay'; readonly event: number }
  | { readonly kind: 'due' }
  | { readonly kind: 'sweep' }

/** An hour is more than the window; 9 s more than five, and twice as much than a right to publish or a delay. */
const PASSES_MS = [9_000, 9_000, 9_000, 3_700_000] as const

/** Stories about so many events. */
export function stories(events: number, steps: number): fc.Arbitrary<readonly Step[]> {
  return fc.array(step(events), { minLength: 1, maxLength: steps, size: 'max' })
}

function step(most: number): fc.Arbitrary<Step> {
  const event = fc.nat(most - 1)
  const events = fc.uniqueArray(event, { minLength: 1, maxLength: most })
  const of = <Fields extends object, const Kind extends Step['kind']>(
    kind: Kind,
    fields: { readonly [Name in keyof Fields]: fc.Arbitrary<Fields[Name]> },
  ) => fc.record({ kind: fc.constant(kind), ...fields }) as unknown as fc.Arbitrary<Step>
  const some = (weight: number, arbitrary: fc.Arbitrary<Step>) => ({ weight, arbitrary })
  return fc.oneof(
    some(3, of('pass', { ms: fc.constantFrom(...PASSES_MS) })),
    some(3, of('suspect', { events })),
    some(3, of('park', { events })),
    some(4, of('count', { events, run: fc.constantFrom('together', 'alone', 'alone') })),
    some(
      6,
      of('verdict', {
        events,
        verb: fc.constantFrom('fail', 'fail', 'bury', 'defer', 'release'),
        owner: fc.constantFrom('last', 'last', 'last', 'first', 'strange', 'none'),
        as: fc.constantFrom('given-back', 'no-verdict'),
      }),
    ),
    some(
      4,
      of('begin', {
        events,
        claim: fc.constantFrom('fresh', 'counted'),
        owner: fc.constantFrom('last', 'last', 'first', 'strange'),
      }),
    ),
    some(3, of('end', { how: fc.constantFrom('commit', 'rollback', 'fail') })),
    some(2, of('take-publishing', { event })),
    some(
      2,
      of('end-publishing', {
        event,
        owner: fc.constantFrom('last', 'last', 'first'),
        as: fc.constantFrom('published', 'failed'),
      }),
    ),
    some(2, of('replay', { event })),
    some(1, of('due', {})),
    some(1, of('sweep', {})),
  )
}
