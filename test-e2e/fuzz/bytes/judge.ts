import type { History, Told } from './history.ts'

/**
 * A body is read once as it must be, looked through for rounded numbers, put in order, hashed and stored, in parts. The
 * parts that cannot be cut (the parse itself, one long text) may take so many times what a bare `JSON.parse` takes.
 */
export const PARSES = 25
/** What a turn may take beside that, ms: garbage collection and code that is not compiled yet. */
export const TURN_MS = 150

type Rule = (told: Told, history: History) => string | undefined

const isFirst = ({ one, setup, reading }: Told, { told }: History): boolean =>
  reading.kind === 'event' &&
  told.find(
    (other) =>
      other.setup === setup && other.reading.kind === 'event' && other.reading.key === reading.key,
  )?.one === one

const ENDS = /^(ack (processed|duplicate)|dead-letter [a-z-]+)$/

/** What must be true of every message. */
export const RULES: Readonly<Record<string, Rule>> = {
  'every delivery ends': ({ settled }) => settled.find((end) => !ENDS.test(end)),
  'a message that is no event is refused with its reason': ({ reading, settled }) =>
    reading.kind === 'refused'
      ? settled.find((end) => end !== `dead-letter ${reading.reason}`)
      : undefined,
  'a new event runs': (told, history) => {
    if (!isFirst(told, history)) return undefined
    const [first] = told.settled
    return first === (told.one.handler === 'ok' ? 'ack processed' : 'dead-letter fatal')
      ? undefined
      : first
  },
  'a copy ends as its original did': ({ settled: [first = '', ...copies] }) =>
    copies.find((end) => end !== (first === 'ack processed' ? 'ack duplicate' : first)),
  'one message has one identity': ({ ids }) => (ids.length > 1 ? ids.join(' and ') : undefined),
  'other keys are other events': ({ setup, reading, ids: [id] }, { told }) => {
    if (reading.kind !== 'event' || id === undefined) return undefined
    const twin = told.find(
      (other) =>
        other.setup === setup &&
        other.ids.includes(id) &&
        other.reading.kind === 'event' &&
        other.reading.key !== reading.key,
    )
    return twin && `${id} is also the id of ${twin.one.name}`
  },
  'handlers see what the broker gave': ({ changed }) => changed[0],
  'a dead letter is stored as it came': (told, history) => {
    const { settled, stored } = told
    if (stored !== undefined) return stored[0]
    const [first = ''] = settled
    // The dead event of a copy that another message made has the message that came first.
    const isOwn = first !== 'dead-letter fatal' || isFirst(told, history)
    return isOwn && first.startsWith('dead-letter') ? 'no dead letter' : undefined
  },
  'a replay runs what was mended, and refuses again what is no event': (told, history) => {
    const { reading, replayed, stored } = told
    if (stored === undefined) return undefined
    if (reading.kind === 'refused')
      return replayed === `dead-letter ${reading.reason}` ? undefined : (replayed ?? 'no replay')
    if (!isFirst(told, history)) return replayed === undefined ? 'no replay' : undefined
    return replayed === 'ack processed' ? undefined : (replayed ?? 'no replay')
  },
  'an event has one effect, and nothing else has one': (told, history) => {
    const { effects, reading } = told
    if (effects > 1) return `${effects} effects`
    if (reading.kind === 'refused') return effects === 0 ? undefined : 'an effect'
    return isFirst(told, history) && effects === 0 ? 'no effect' : undefined
  },
  'the event loop goes on': ({ parseMs, turnMs }) =>
    turnMs > TURN_MS + PARSES * parseMs
      ? `busy for ${turnMs.toFixed(0)} ms, JSON.parse for ${parseMs.toFixed(1)} ms`
      : undefined,
  'an envelope is read back whole, or refused': ({ envelope }) => envelope[0],
}

/** Every broken rule, with what broke it. */
export function violationsOf(history: History): readonly string[] {
  const broken = Object.entries(RULES).flatMap(([rule, isBroken]) =>
    history.told.flatMap((told) => {
      const by = isBroken(told, history)
      return by === undefined ? [] : [`${rule}: ${told.one.name} over ${told.setup}: ${by}`]
    }),
  )
  const leaks = history.leaks.map((line) => `no log holds a secret: ${line}`)
  const crashes = history.crashes.map((crash) => `nothing crashes: ${crash}`)
  return [...crashes, ...leaks, ...broken]
}

/** The rule that a violation is about. */
export const ruleOf = (violation: string): string => violation.split(':')[0] ?? ''
