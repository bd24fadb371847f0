import type { OwnBytes } from './reply.ts'

/** Turns of the event loop within which a body that is in memory gives its next piece. */
const TURNS = 50

/** Why the body of a Response cannot be stored. */
export type Unbuffered = 'used' | 'stream' | 'failed'

export interface BufferedBody {
  readonly kind: 'body'
  readonly bytes: OwnBytes
}

/**
 * The body of a Response that is in memory. A body that still waits for its source is a stream: it may never end, and
 * it would hold the transaction open meanwhile.
 */
export async function readBuffered(
  response: Response,
  mostBytes: number,
): Promise<BufferedBody | { readonly kind: Unbuffered | 'large' }> {
  if (response.bodyUsed || response.body?.locked === true) return { kind: 'used' }
  if (response.body === null) return { kind: 'body', bytes: new Uint8Array() }
  const reader = response.body.getReader()
  const chunks: Uint8Array[] = []
  let length = 0
  try {
    for (;;) {
      const next = await soon(reader.read())
      if (next === undefined) return await refused(reader, 'stream')
      if (next.done) return { kind: 'body', bytes: Uint8Array.from(Buffer.concat(chunks)) }
      if (!(next.value instanceof Uint8Array)) return await refused(reader, 'failed')
      length += next.value.byteLength
      if (length > mostBytes) return await refused(reader, 'large')
      chunks.push(next.value)
    }
  } catch {
    return { kind: 'failed' }
  }
}

async function refused<Kind extends Unbuffered | 'large'>(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  kind: Kind,
): Promise<{ readonly kind: Kind }> {
  reader.cancel().catch(() => undefined)
  return { kind }
}

/** What the promise gives within some turns of the event loop, else undefined. Time says nothing on a busy machine. */
async function soon<Value>(promise: Promise<Value>): Promise<Value | undefined> {
  let isOver = false
  const turns = async (): Promise<undefined> => {
    for (let turn = 0; turn < TURNS && !isOver; turn++) {
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  try {
    return await Promise.race([promise, turns()])
  } finally {
    isOver = true
  }
}
