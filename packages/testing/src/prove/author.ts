import { ProofError } from './errors.ts'
import type { EventToSend, FromProcess, ProcessSettings, Question } from './protocol.ts'
import { UserProcess } from './user-process.ts'

interface Asked {
  resolve(value: unknown): void
  reject(error: Error): void
}

const CALLS: Readonly<Record<Question['kind'], string>> = {
  ...{ events: 'event()', setup: 'setup()', count: 'count()', teardown: 'teardown()' },
}

/** A machine that is busy takes its time. */
const LOAD_MS = 120_000

/** The process that makes events and counts effects: the user's file, without its consumer. */
export class Author implements AsyncDisposable {
  readonly #process: UserProcess
  readonly #settings: ProcessSettings
  readonly #asked = new Map<number, Asked>()
  readonly #ready = Promise.withResolvers<void>()
  #last = 0

  private constructor(settings: ProcessSettings, variables: Readonly<Record<string, string>>) {
    this.#settings = settings
    this.#process = new UserProcess(settings, variables, (message) => this.#hear(message))
    void this.#process.ended.then((how) => {
      const error = this.#process.error(
        `the process ended by itself (${how})`,
        'It must not call process.exit().',
      )
      this.#ready.reject(error)
      for (const { reject } of this.#asked.values()) reject(error)
    })
  }

  /** @throws {@link ProofError} for a file that cannot be loaded. */
  static async start(
    settings: Omit<ProcessSettings, 'role'>,
    variables: Readonly<Record<string, string>>,
  ): Promise<Author> {
    const author = new Author({ ...settings, role: 'author' }, variables)
    try {
      await author.#within(author.#ready.promise, 'loading it', LOAD_MS)
      return author
    } catch (error) {
      await author[Symbol.asyncDispose]()
      throw error
    }
  }

  async events(count: number): Promise<readonly EventToSend[]> {
    return (await this.#ask({ kind: 'events', count })) as readonly EventToSend[]
  }

  async setup(): Promise<void> {
    await this.#ask({ kind: 'setup' })
  }

  async teardown(): Promise<void> {
    await this.#ask({ kind: 'teardown' })
  }

  /** @throws {@link ProofError} for an answer that is no record of numbers. */
  async count(): Promise<Readonly<Record<string, number>>> {
    const answer = await this.#ask({ kind: 'count' })
    const isRecord = typeof answer === 'object' && answer !== null && !Array.isArray(answer)
    const entries = isRecord
      ? Object.entries(answer).map(([key, value]) => [key, Number(value)] as const)
      : []
    if (isRecord && entries.every(([, value]) => Number.isInteger(value) && value >= 0)) {
      return Object.fromEntries(entries)
    }
    throw new ProofError(
      `${this.#settings.file}: count() must resolve with { [event]: number of effects }, such as { 'order-1': 1 }.`,
    )
  }

  async #ask(question: Question): Promise<unknown> {
    this.#last += 1
    const id = this.#last
    const asked = Promise.withResolvers<unknown>()
    this.#asked.set(id, asked)
    this.#process.say({ kind: 'ask', id, question })
    try {
      return await this.#within(asked.promise, CALLS[question.kind], this.#settings.answerMs)
    } finally {
      this.#asked.delete(id)
    }
  }

  #hear(message: FromProcess): void {
    if (message.kind === 'ready') this.#ready.resolve()
    if (message.kind === 'failed') {
      this.#ready.reject(this.#process.error('it cannot be loaded.', message.text))
    }
    if (message.kind !== 'answer' && message.kind !== 'refused') return
    const asked = this.#asked.get(message.id)
    if (message.kind === 'answer') asked?.resolve(message.value)
    else asked?.reject(this.#process.error('a function has thrown:', message.text))
  }

  async #within<Value>(promise: Promise<Value>, what: string, mostMs: number): Promise<Value> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const advice =
          'Check that it reaches its database, and that it does not wait for the consumer to end.'
        reject(this.#process.error(`${what} has not ended after ${mostMs / 1_000} s.`, advice))
      }, mostMs)
    })
    try {
      return await Promise.race([promise, late])
    } finally {
      clearTimeout(timer)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Nobody waits for what is asked any more.
    this.#ready.promise.catch(() => undefined)
    await this.#process.kill()
  }
}
