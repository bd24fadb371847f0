import type { Savepoint } from '@onceward/core/ports'
import { statementTokens } from './statement-tokens.ts'

/** What every text contains that begins or ends a savepoint. */
export const SAVEPOINT_WORD: RegExp = /\b(?:savepoint|release|rollback)\b/i

const BEGINS = /^savepoint (.+)$/
const ENDS = /^release (?:savepoint )?(.+)$/
const ROLLS_BACK = /^rollback (?:work |transaction )?to (?:savepoint )?(.+)$/

/** What undoes a savepoint undoes those within it, also those that were released. */
class Nested implements Savepoint {
  readonly name: string
  readonly outer: Nested | undefined
  isUndone = false

  constructor(name: string, outer: Nested | undefined) {
    this.name = name
    this.outer = outer
  }

  get isRolledBack(): boolean {
    return this.isUndone || this.outer?.isRolledBack === true
  }
}

/** The savepoints that the handlers of one transaction have open. A statement of them that fails fails the transaction. */
export class Savepoints {
  #current: Nested | undefined

  /** The innermost one. */
  get current(): Savepoint | undefined {
    return this.#current
  }

  /** A text of one or more statements is sent. */
  sent(text: string): void {
    let words: string[] = []
    for (const token of statementTokens(text, false)) {
      if (token !== ';') words.push(token)
      else {
        this.#statement(words.join(' '))
        words = []
      }
    }
    this.#statement(words.join(' '))
  }

  #statement(words: string): void {
    const [, begun] = BEGINS.exec(words) ?? []
    if (begun !== undefined) this.#current = new Nested(nameOf(begun), this.#current)
    const released = this.#find(ENDS.exec(words)?.[1])
    if (released !== undefined) this.#current = released.outer
    const undone = this.#find(ROLLS_BACK.exec(words)?.[1])
    if (undone === undefined) return
    undone.isUndone = true
    // It is open again.
    this.#current = new Nested(undone.name, undone.outer)
  }

  #find(word: string | undefined): Nested | undefined {
    if (word === undefined) return undefined
    const name = nameOf(word)
    let each = this.#current
    while (each !== undefined && each.name !== name) each = each.outer
    return each
  }

  /** Runs what a library does between a savepoint of its own and the end of it. No text of them is seen. */
  async within<T>(run: () => PromiseLike<T>): Promise<T> {
    const own = new Nested('', this.#current)
    this.#current = own
    try {
      return await run()
    } catch (error) {
      own.isUndone = true
      throw error
    } finally {
      this.#leave(own)
    }
  }

  /** With those within it. */
  #leave(own: Nested): void {
    let each = this.#current
    while (each !== undefined && each !== own) each = each.outer
    if (each === own) this.#current = own.outer
  }
}

/** Without its quotes, because `a` and `"a"` are one name. */
const nameOf = (word: string): string => (word.startsWith('"') ? word.slice(1, -1) : word)
