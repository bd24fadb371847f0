import { StoreUnavailableError } from '@onceward/core'
import { YOUNG_MS } from '@onceward/core/adapter'
import type { CallInbox } from './calls.ts'
import type { InboxKeys } from './keys.ts'
import { type Reading, type Refused, readValue, type Trouble, toText } from './record.ts'

/** Dead letters are kept so long, ms: 30 days. */
const LETTER_MS = 2_592_000_000
/** An event that changes so often between reading and writing has something else wrong. */
const MOST_TRIES = 50

/** What becomes of a record. */
export interface Change {
  /** Undefined: the record is deleted. */
  readonly record: Trouble | Refused | undefined
  /** Whose lock may be on the event: of this transaction, or of nobody ('-'); ignored if left out. */
  readonly lockedBy?: string | undefined
}

/** What a verb does to one record: its answer, and perhaps a change on which the answer depends. */
export interface Decision<Answer> {
  readonly answer: Answer
  readonly change?: Change | undefined
  /** What to answer if another transaction has locked the event meanwhile. Left out: the record is read again. */
  readonly ifLocked?: Answer | undefined
}

export interface Readings {
  readonly nowMs: number
  readonly all: readonly Reading[]
}

/** The records of events and messages of one consumer: read, decided by `decide`, and written if unchanged. */
export class Records {
  readonly keys: InboxKeys
  readonly #call: CallInbox
  readonly #consumer: string
  readonly #keepMs: number

  constructor(
    call: CallInbox,
    keys: InboxKeys,
    registration: { consumer: string; dedupWindowMs: number },
  ) {
    this.keys = keys
    this.#call = call
    this.#consumer = registration.consumer
    this.#keepMs = Math.max(LETTER_MS, registration.dedupWindowMs)
  }

  async read(names: readonly string[]): Promise<Readings> {
    if (names.length === 0) return { nowMs: 0, all: [] }
    const keys = names.flatMap((name) => this.keys.pair(name))
    const [now, values] = await this.#call({ script: 'read', keys, args: [] })
    const all = (Array.isArray(values) ? values : []).map((each) => readValue(each as unknown[]))
    return { nowMs: Number(now), all }
  }

  /** Decides about each record, and writes what has not changed meanwhile. What has changed is decided again. */
  async change<Answer>(
    names: readonly string[],
    decide: (reading: Reading, index: number, nowMs: number) => Decision<Answer>,
  ): Promise<readonly Answer[]> {
    const answers = new Map<number, Answer>()
    // One name twice in a call: the second sees what the first has written.
    let left = names.map((_, index) => index)
    for (let tries = 0; left.length > 0; tries += 1) {
      if (tries === MOST_TRIES)
        throw new StoreUnavailableError('Records in Redis change all the time.')
      const now = firstOfEach(left, names)
      const { nowMs, all } = await this.read(now.map((index) => names[index] as string))
      const decisions = now.map((index, at) => decide(all[at] as Reading, index, nowMs))
      const swapped = await this.swap(
        now.map((index, at) => ({
          name: names[index] as string,
          head: (all[at] as Reading).head,
          change: decisions[at]?.change,
        })),
      )
      for (const [at, index] of now.entries()) {
        const { answer, ifLocked } = decisions[at] as Decision<Answer>
        if (swapped[at] === 'swapped') answers.set(index, answer)
        else if (swapped[at] === 'locked' && ifLocked !== undefined) answers.set(index, ifLocked)
      }
      left = left.filter((index) => !answers.has(index))
    }
    return names.map((_, index) => answers.get(index) as Answer)
  }

  /** @param isAll - All or none. */
  async swap(
    entries: readonly {
      readonly name: string
      readonly head: string
      readonly change: Change | undefined
    }[],
    isAll = false,
  ): Promise<readonly ('swapped' | 'changed' | 'locked')[]> {
    const changing = entries.filter(({ change }) => change !== undefined)
    if (changing.length === 0) return entries.map(() => 'swapped')
    const lists = [this.keys.due(this.#consumer), this.keys.letters(this.#consumer)]
    const answers = await this.#call({
      script: 'swap',
      keys: [...lists, ...changing.flatMap(({ name }) => this.keys.pair(name))],
      args: [
        isAll ? '1' : '0',
        ...changing.flatMap(({ change, head, name }) => {
          const { lockedBy = '', record } = change as Change
          return [head, lockedBy, ...this.#written(record), name]
        }),
      ],
    })
    const numbers = answers.map(Number)
    return entries.map(({ change }) => {
      const number = change === undefined ? 1 : numbers.shift()
      return number === 1 ? 'swapped' : number === 2 ? 'locked' : 'changed'
    })
  }

  /** Names that are due by now, the earliest first. */
  async due(most: number): Promise<readonly string[]> {
    return this.#list(this.keys.due(this.#consumer), 'now', most)
  }

  async letters(most: number): Promise<readonly string[]> {
    return this.#list(this.keys.letters(this.#consumer), '+inf', most)
  }

  /** Takes names off both lists whose records have expired. */
  async unlist(names: readonly string[]): Promise<void> {
    if (names.length === 0) return
    for (const key of [this.keys.due(this.#consumer), this.keys.letters(this.#consumer)]) {
      await this.#call({ script: 'unlist', keys: [key], args: names })
    }
  }

  async #list(key: string, most: string, count: number): Promise<readonly string[]> {
    const names = await this.#call({
      script: 'list',
      keys: [key],
      args: [most, String(count), '0'],
    })
    return names.map(String)
  }

  /** The value, its life, and its places in the two lists. */
  #written(record: Trouble | Refused | undefined): readonly string[] {
    if (record === undefined) return ['', '0', '', '']
    // A stored delivery that nobody else brings must not expire before it has run.
    const isWaitedFor = record.parked && !(record.kind === 'dead' && record.published)
    const isLetter = record.kind === 'dead' || (record.kind === 'refused' && !record.parked)
    return [
      toText(record),
      isWaitedFor ? '0' : String(this.#keepMs),
      dueAt(record),
      isLetter ? String(record.lastFailedAtMs) : '',
    ]
  }
}

function firstOfEach(indexes: readonly number[], names: readonly string[]): readonly number[] {
  const seen = new Set<string | undefined>()
  return indexes.filter((index) => !seen.has(names[index]) && seen.add(names[index]))
}

/** When a guard has to look at the record by itself; '' if a broker brings its message. */
function dueAt(record: Trouble | Refused): string {
  if (!record.parked) return ''
  switch (record.kind) {
    case 'refused':
      return '0'
    case 'waiting':
      return String(record.nextTryAtMs)
    case 'running':
      return String(record.countedAtMs + YOUNG_MS)
    case 'dead':
      return record.published ? '' : String(record.publishing?.untilMs ?? 0)
  }
}
