import { eventIdOf } from '@onceward/core/ports'

type ByText = ReadonlyMap<string, number>

/**
 * Which texts stand for which event: the values of a field of its body in which all events differ, such as its id. `count`
 * answers by them, and an event is recognized by them on the wire.
 */
export class Identities {
  readonly #fields: readonly ByText[]
  readonly #events: number

  constructor(bodies: readonly unknown[]) {
    this.#events = bodies.length
    this.#fields = fieldsOf(bodies)
  }

  /** Texts by which an event is recognized on the wire. Numbers are, if nothing else is: many other things are numbers. */
  recognizable(): readonly (readonly [text: string, event: number])[] {
    const isText = (field: ByText): boolean =>
      [...field.keys()].some((text) => /[^\d.-]/.test(text))
    const texts = this.#fields.filter(isText)
    return (texts.length > 0 ? texts : this.#fields).flatMap((field) => [...field])
  }

  /** By the ids that guards of these consumers give events whose key is a value of their bodies. */
  byId(consumers: readonly string[]): ReadonlyMap<string, number> {
    const ids = consumers.flatMap((consumer) =>
      this.#fields.flatMap((field) =>
        [...field].map(([key, event]) => [eventIdOf(consumer, undefined, key), event] as const),
      ),
    )
    return new Map<string, number>(ids)
  }

  /** The effects of each event: the keys are values of one field, or else end in the number of the event. */
  effectsOf(counts: Readonly<Record<string, number>>): Effects {
    const entries = Object.entries(counts).filter(([, effects]) => effects !== 0)
    const known = (field: ByText): number => entries.filter(([key]) => field.has(key)).length
    const best = this.#fields.toSorted((a, b) => known(b) - known(a))[0]
    const byEvent = new Map<number, number>()
    const unknown: string[] = []
    for (const [key, effects] of entries) {
      const event = best?.get(key) ?? this.#numberOf(key)
      if (event === undefined) unknown.push(key)
      else byEvent.set(event, (byEvent.get(event) ?? 0) + effects)
    }
    return { byEvent, unknown }
  }

  /** That at the end of a key such as `order-17`. */
  #numberOf(key: string): number | undefined {
    const number = Number(/(?:^|[^\d])(\d{1,9})$/.exec(key)?.[1])
    return number >= 1 && number <= this.#events ? number : undefined
  }
}

/** How often each event has an effect, and what `count` answered beside them. */
export interface Effects {
  /** By the number of the event, for events that have an effect. */
  readonly byEvent: ReadonlyMap<number, number>
  /** Keys that stand for no event. */
  readonly unknown: readonly string[]
}

const DEEPEST = 8
const MOST_FIELDS = 200

/** The fields in which all bodies differ. */
function fieldsOf(bodies: readonly unknown[]): readonly ByText[] {
  const fields = new Map<string, Map<string, number>>()
  for (const [index, body] of bodies.entries()) {
    for (const [path, text] of valuesIn(body)) {
      const field = fields.get(path) ?? new Map<string, number>()
      if (!field.has(text)) field.set(text, index + 1)
      if (fields.size < MOST_FIELDS) fields.set(path, field)
    }
  }
  return [...fields.values()].filter(({ size }) => size === bodies.length)
}

/** The texts and numbers in a body. */
function valuesIn(body: unknown, path = ''): readonly (readonly [path: string, text: string])[] {
  if (typeof body === 'string') return body === '' ? [] : [[path, body]]
  if (typeof body === 'number') return [[path, String(body)]]
  if (typeof body !== 'object' || body === null || path.split('/').length > DEEPEST) return []
  return Object.entries(body).flatMap(([name, value]) => valuesIn(value, `${path}/${name}`))
}
