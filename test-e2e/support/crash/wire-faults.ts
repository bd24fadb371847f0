import { type DataHook, proxy, type TcpProxy } from '@onceward/testing'

/** A proxy that interrupts a connection at one point. */
export interface Severed {
  readonly proxy: TcpProxy
  /** Resolves when the point is reached. From then on the client gets no answer. */
  readonly reached: Promise<void>
}

export interface Target {
  readonly host: string
  readonly port: number
}

export const targetOf = (url: string): Target => {
  const { hostname, port } = new URL(url)
  return { host: hostname, port: Number(port) }
}

/** The same url, through a proxy. */
export function through(url: string, { host, port }: TcpProxy): string {
  const moved = new URL(url)
  moved.hostname = host
  moved.port = String(port)
  return moved.href
}

// `set local synchronous_commit` is not a COMMIT.
const COMMIT = /(?<!_)commit/i

/** At the COMMIT of the transaction that writes `text`. */
export interface CommitFault {
  readonly text: string
  /** Whether the server gets the COMMIT. */
  readonly arrives: boolean
  /** `silence`: no more answers come. `cut`: the connection ends, once. */
  readonly by: 'silence' | 'cut'
}

export function severCommit(target: Target, fault: CommitFault): Promise<Severed> {
  const verdict = fault.by === 'cut' ? 'cut' : 'drop'
  let isOver = false
  return sever(target, (reach) => (direction, chunk, { notes }) => {
    const strike = (): typeof verdict => {
      isOver = fault.by === 'cut'
      reach()
      return verdict
    }
    if (notes.has('committing')) return strike()
    if (direction === 'down' || isOver) return 'pass'
    const said = chunk.toString('latin1')
    if (notes.has('writing') && COMMIT.test(said)) {
      notes.set('committing', true)
      return fault.arrives ? 'pass' : strike()
    }
    if (said.includes(fault.text)) notes.set('writing', true)
    return 'pass'
  })
}

/** At the first statement that says `text`. From then on no answer comes. */
export function severStatement(
  target: Target,
  { arrives, text }: Pick<CommitFault, 'text' | 'arrives'>,
): Promise<Severed> {
  return sever(target, (reach) => (direction, chunk, { notes }) => {
    if (notes.has('said')) {
      reach()
      return 'drop'
    }
    if (direction === 'down' || !chunk.toString('latin1').includes(text)) return 'pass'
    notes.set('said', true)
    if (arrives) return 'pass'
    reach()
    return 'drop'
  })
}

async function sever(target: Target, hookOf: (reach: () => void) => DataHook): Promise<Severed> {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { proxy: await proxy(target, { onData: hookOf(resolve) }), reached: promise }
}
