import type { WireTransaction } from '../../wire/postgres-conversation.ts'
import type { Named } from '../protocol.ts'

const UUID = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g

/** Recognizes events in what goes over the wire. */
export class Recognized {
  readonly #events: ReadonlyMap<string, number>

  constructor(entries: readonly (readonly [text: string, event: number])[]) {
    this.#events = new Map(entries)
  }

  /** The events that these values name: as a whole, or as a word in a longer text. */
  among(values: readonly string[]): readonly number[] {
    const found = new Set<number>()
    for (const value of values) {
      const event = this.#events.get(value)
      if (event !== undefined) found.add(event)
      else for (const word of this.#wordsIn(value)) found.add(word)
    }
    return [...found]
  }

  /** Numbers are no words: a length or a counter would be an event. */
  #wordsIn(text: string): readonly number[] {
    const words = text.split(/[^\w.:@/+-]+/).filter((word) => /[^\d.-]/.test(word))
    return words.flatMap((word) => this.#events.get(word) ?? this.#events.get(trimmed(word)) ?? [])
  }

  /** The events of a transaction: values of bodies, and the ids by which guards claim them. */
  named(transactions: readonly WireTransaction[]): Named {
    const values = transactions.flatMap((each) => each.values)
    const texts = transactions.flatMap((each) => each.texts)
    const ids = [...values, ...texts].flatMap((text) => text.match(UUID) ?? [])
    return { events: this.among(values), ids: [...new Set(ids)] }
  }

  /** The events in a message of a broker. */
  inMessage(bytes: Buffer): readonly number[] {
    const text = bytes.toString('latin1')
    const numbers = [...text.matchAll(/[:[](\d{1,15})(?=[,}\]\\])/g)].map(
      ([, number = '']) => number,
    )
    return this.among([text, ...numbers])
  }
}

const isMark = (character = ''): boolean => '.:/+-'.includes(character)

/** Without the marks around a word. */
function trimmed(word: string): string {
  let [from, to] = [0, word.length]
  while (from < to && isMark(word[from])) from += 1
  while (to > from && isMark(word[to - 1])) to -= 1
  return word.slice(from, to)
}
