import { type Direction, type ProxiedConnection, proxy, type TcpProxy } from '@onceward/testing'

/** One message of Postgres to its client: the type, and the text that is needed here. */
interface Answer {
  readonly type: string
  readonly text: string
}

const HEAD = 5

/** Splits the bytes that Postgres sends into messages. */
class Answers {
  #rest: Buffer = Buffer.alloc(0)

  read(chunk: Buffer): readonly Answer[] {
    const answers: Answer[] = []
    this.#rest = Buffer.concat([this.#rest, chunk])
    while (this.#rest.length >= HEAD) {
      const end = 1 + this.#rest.readInt32BE(1)
      if (this.#rest.length < end) break
      const text = this.#rest.toString('latin1', HEAD, end)
      answers.push({ type: String.fromCharCode(this.#rest[0] ?? 0), text })
      this.#rest = this.#rest.subarray(end)
    }
    return answers
  }
}

/** What passes between consumer and servers. */
export interface Traffic {
  statements: number
  commits: number
  redisCalls: number
}

const COMMAND_COMPLETE = 'C'
const READY = 'Z'
const IDLE = 'I'

/** Counts the commands that Postgres completed, and how many of them ended a transaction. */
export function countingPostgres(url: string, traffic: Traffic): Promise<TcpProxy> {
  return proxyTo(url, (direction, chunk, { notes }) => {
    if (direction === 'up') return
    for (const { type, text } of answersOf(notes).read(chunk)) {
      if (type === COMMAND_COMPLETE) traffic.statements += 1
      if (type === READY && text === IDLE) traffic.commits += 1
    }
  })
}

const COMMAND = /\*\d+\r\n\$/g

/** Counts the commands to Redis, including pipelined ones. */
export function countingRedis(url: string, traffic: Traffic): Promise<TcpProxy> {
  return proxyTo(url, (direction, chunk) => {
    if (direction === 'up')
      traffic.redisCalls += chunk.toString('latin1').match(COMMAND)?.length ?? 0
  })
}

/** An effect was written or committed. Postgres has done it; the consumer does not know yet. */
export type Moment = 'written' | 'committed'

const WRITE = 'insert into effects'

/** Reports each moment before the consumer learns of it. */
export function watchingPostgres(
  url: string,
  onMoment: (moment: Moment) => void,
): Promise<TcpProxy> {
  return proxyTo(url, (direction, chunk, { notes }) => {
    if (direction === 'up') {
      if (chunk.includes(WRITE)) notes.set('writing', true)
      return
    }
    for (const { type, text } of answersOf(notes).read(chunk)) {
      if (type !== COMMAND_COMPLETE || !notes.has('writing')) continue
      if (text.startsWith('INSERT')) onMoment('written')
      if (!/^(COMMIT|ROLLBACK)/.test(text)) continue
      notes.delete('writing')
      if (text.startsWith('COMMIT')) onMoment('committed')
    }
  })
}

function answersOf(notes: ProxiedConnection['notes']): Answers {
  const known = notes.get('answers')
  if (known instanceof Answers) return known
  const answers = new Answers()
  notes.set('answers', answers)
  return answers
}

function proxyTo(
  url: string,
  see: (direction: Direction, chunk: Buffer, connection: ProxiedConnection) => void,
): Promise<TcpProxy> {
  const { hostname, port } = new URL(url)
  return proxy(
    { host: hostname, port: Number(port) },
    {
      onData: (direction, chunk, connection) => {
        see(direction, chunk, connection)
        return 'pass'
      },
    },
  )
}

/** The same url, through a proxy. */
export function through(url: string, { host, port }: TcpProxy): string {
  return Object.assign(new URL(url), { hostname: host, port: String(port) }).href
}
