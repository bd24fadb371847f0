import type { ProofError } from './errors.ts'
import type { ArmedBlow, FromProcess, ProcessSettings } from './protocol.ts'
import { UserProcess } from './user-process.ts'

/** A worker that ends by itself so often has no chance to do its work. */
const MOST_OWN_ENDS = 15
const DRAIN_MS = 20_000
const HEALTH_MS = 2_000

interface Member {
  readonly process: UserProcess
  readonly ready: PromiseWithResolvers<void>
  isReady: boolean
}

/** Several processes that consume. One that is killed is replaced at once. */
export class Crew implements AsyncDisposable {
  readonly #settings: Omit<ProcessSettings, 'role'>
  readonly #variables: Readonly<Record<string, string>>
  readonly #pids: number[]
  readonly #members = new Set<Member>()
  readonly #health = new Map<Member, PromiseWithResolvers<number>>()
  /** What was rejected and nothing awaited, with how often. */
  readonly unawaited: Map<string, number> = new Map()
  /** Why the proof cannot go on. */
  failure: ProofError | undefined
  /** Ends of workers that nobody had killed. */
  ownEnds = 0
  #armed: ArmedBlow | undefined
  #isOver = false
  #expected = 0
  #killed = 0

  constructor(
    settings: Omit<ProcessSettings, 'role'>,
    variables: Readonly<Record<string, string>>,
    pids: number[],
  ) {
    this.#settings = settings
    this.#variables = variables
    this.#pids = pids
  }

  /** Starts the first worker alone, because what it creates should be there for the others. */
  async start(workers: number): Promise<void> {
    await this.#started(this.#spawn())
    await Promise.all(Array.from({ length: workers - 1 }, () => this.#started(this.#spawn())))
  }

  arm(blow: ArmedBlow | undefined): void {
    this.#armed = blow
    for (const { process } of this.#members) process.say({ kind: 'arm', blow })
  }

  /** A worker kills itself, as planned. */
  expectKill(): void {
    this.#expected += 1
  }

  /** Lets a frozen worker go on. */
  wake(pid: number): void {
    for (const { process } of this.#members) {
      if (process.pid === pid) process.signal('SIGCONT')
    }
  }

  /** What a worker has written last, indented. */
  get lastLines(): string {
    const [member] = this.#members
    return member?.process.lastLines ?? ''
  }

  /** Messages in hand in all workers; a worker that is frozen or starts tells nothing. */
  async inFlight(): Promise<number> {
    const asked = [...this.#members].map(async (member) => {
      if (!member.isReady) return 0
      const answer = Promise.withResolvers<number>()
      this.#health.set(member, answer)
      member.process.say({ kind: 'ask-health' })
      const late = setTimeout(() => answer.resolve(0), HEALTH_MS)
      return answer.promise.finally(() => clearTimeout(late))
    })
    return (await Promise.all(asked)).reduce((sum, each) => sum + each, 0)
  }

  /** Lets the workers finish what they have in hand, and ends them. */
  async drain(): Promise<void> {
    this.#isOver = true
    const members = [...this.#members]
    const late = setTimeout(() => {
      for (const { process } of members) process.signal('SIGKILL')
    }, DRAIN_MS)
    for (const { process } of members) {
      process.signal('SIGCONT')
      process.say({ kind: 'drain' })
    }
    await Promise.all(members.map(({ process }) => process.ended))
    clearTimeout(late)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    await Promise.all([...this.#members].map(({ process }) => process.kill()))
  }

  #spawn(): Member {
    const settings = { ...this.#settings, role: 'worker' as const }
    const member: Member = {
      process: new UserProcess(settings, this.#variables, (message) => this.#hear(member, message)),
      ready: Promise.withResolvers<void>(),
      isReady: false,
    }
    // It is awaited by the first workers alone.
    member.ready.promise.catch(() => undefined)
    this.#members.add(member)
    this.#pids.push(member.process.pid)
    if (this.#armed !== undefined) member.process.say({ kind: 'arm', blow: this.#armed })
    void member.process.ended.then((how) => this.#ended(member, String(how)))
    return member
  }

  #hear(member: Member, message: FromProcess): void {
    const { process } = member
    if (message.kind === 'ready') {
      member.isReady = true
      member.ready.resolve()
    } else if (message.kind === 'failed') {
      const what = STAGES[message.stage] ?? message.stage
      this.#fail(member, process.error(what, message.text))
    } else if (message.kind === 'health') {
      this.#health.get(member)?.resolve(message.inFlight ?? 0)
    } else if (message.kind === 'unawaited') {
      this.unawaited.set(message.text, (this.unawaited.get(message.text) ?? 0) + 1)
    }
  }

  #ended(member: Member, how: string): void {
    this.#members.delete(member)
    this.#health.get(member)?.resolve(0)
    if (this.#isOver) return
    if (this.#mayBeReplaced(member, how)) {
      this.#spawn()
      return
    }
    const advice =
      'A worker must go on until it is drained: look for an error that nothing catches, for process.exit(), and for too little memory.'
    const when = member.isReady ? `${this.ownEnds} times` : 'before start() had resolved'
    this.#fail(member, member.process.error(`a worker ended by itself (${how}) ${when}.`, advice))
  }

  #mayBeReplaced(member: Member, how: string): boolean {
    if (how === 'SIGKILL') this.#killed += 1
    // The blow may be heard later than the end of its worker.
    if (how === 'SIGKILL' && this.#killed <= this.#expected + 1) return true
    this.ownEnds += 1
    return member.isReady && this.ownEnds <= MOST_OWN_ENDS
  }

  #fail(member: Member, error: ProofError): void {
    this.failure ??= error
    member.ready.reject(this.failure)
  }

  async #started({ process, ready }: Member): Promise<void> {
    const { answerMs } = this.#settings
    const late = setTimeout(() => {
      ready.reject(
        process.error(
          `start() has not resolved after ${answerMs / 1_000} s.`,
          'It must resolve as soon as it consumes: do not wait for `consumption.stopped`, and check that it reaches its servers.',
        ),
      )
    }, answerMs)
    try {
      await ready.promise
    } finally {
      clearTimeout(late)
    }
  }
}

const STAGES: Readonly<Record<string, string>> = {
  load: 'it cannot be loaded.',
  start: 'start() has thrown:',
  consume: 'the consumer cannot go on:',
}
