import type { Actor, Operation, Scheduler } from './scheduler.ts'

/** A request on its way, being executed, or its answer on its way back. */
interface Call {
  readonly verb: string
  operation: Operation | undefined
  testbed: 'request' | 'executing' | 'answer'
  isCut: boolean
  readonly execute: () => void
  readonly fail: () => void
}

export interface LinkOptions {
  readonly scheduler: Scheduler
  readonly from: Actor
  readonly servers: Actor
  readonly isReachable: () => boolean
  /** What the caller sees when the link is cut or nobody answers. */
  readonly lost: (verb: string) => Error
  /** Looks at everything right after a server has done something. */
  readonly executed: (verb: string) => void
}

/**
 * The way from one process to one server. Each call is two scheduling points: the request arrives, the answer arrives;
 * anything may happen in between, and either may be lost.
 */
export class Link {
  /** One more after each cut. */
  epoch = 0
  readonly #options: LinkOptions
  readonly #calls = new Set<Call>()

  constructor(options: LinkOptions) {
    this.#options = options
  }

  call<Answer>(
    verb: string,
    execute: () => Answer | Promise<Answer>,
    isReady?: () => boolean,
  ): Promise<Answer> {
    const { scheduler, from } = this.#options
    return new Promise((resolve, reject) => {
      const answered = (answer: () => void, said: unknown): void => {
        if (call.isCut) return
        call.testbed = 'answer'
        call.operation = scheduler.add(from, `${verb}<`, () => {
          this.#calls.delete(call)
          if (scheduler.observe !== undefined) scheduler.observe(from, digest(said))
          answer()
        })
      }
      const call: Call = {
        verb,
        operation: undefined,
        testbed: 'request',
        isCut: false,
        execute: () => void this.#execute(call, { verb, execute, answered, resolve, reject }),
        fail: () => reject(this.#options.lost(verb)),
      }
      this.#calls.add(call)
      call.operation = scheduler.add(from, `${verb}>`, call.execute, isReady)
    })
  }

  /** The connection breaks: callers hear of it. A request on its way still lands where `lands` says so. */
  cut(lands: () => boolean): void {
    const { scheduler, from } = this.#options
    this.abandon(lands, (call) => scheduler.add(from, `${call.verb} cut!`, call.fail))
  }

  /** The caller is dead: nobody hears anything. */
  abandon(lands: () => boolean, tell: (call: Call) => void = () => undefined): void {
    const { from, scheduler, servers } = this.#options
    this.epoch += 1
    for (const call of [...this.#calls]) {
      this.#calls.delete(call)
      call.isCut = true
      if (call.operation !== undefined) scheduler.remove(call.operation)
      if (call.testbed === 'request' && lands())
        scheduler.add(servers, `late ${call.verb} of ${from.name}`, call.execute)
      tell(call)
    }
  }

  get inFlight(): readonly string[] {
    return [...this.#calls].map(({ verb }) => verb)
  }

  async #execute<Answer>(
    call: Call,
    request: {
      readonly verb: string
      readonly execute: () => Answer | Promise<Answer>
      readonly answered: (answer: () => void, said: unknown) => void
      readonly resolve: (answer: Answer) => void
      readonly reject: (error: unknown) => void
    },
  ): Promise<void> {
    const { verb, execute, answered, resolve, reject } = request
    const { isReachable, lost, executed } = this.#options
    call.testbed = 'executing'
    if (!isReachable()) return answered(() => reject(lost(verb)), 'lost')
    try {
      const answer = await execute()
      answered(() => resolve(answer), answer)
    } catch (error) {
      answered(() => reject(error), String(error))
    }
    executed(verb)
  }
}

/** An answer in words: equal for equal answers. */
function digest(answer: unknown): string {
  const text = JSON.stringify(answer, (_, value: unknown) => {
    if (typeof value === 'bigint') return String(value)
    if (value instanceof Set) return [...value]
    return value instanceof Uint8Array ? value.length : value
  })
  return text ?? ''
}
