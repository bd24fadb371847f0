import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import type { Source, Word } from '../workers/protocol.ts'
import type { Crashes } from './crash.ts'

/** Whether a chunk that a client writes says it. */
type Says = (chunk: Buffer) => boolean

const sqs = (action: string): Says => {
  const target = `AmazonSQS.${action}`
  return (chunk) => chunk.includes(target)
}

/** A request of kafkajs is one chunk: its size, then what it asks for. */
const kafka = (apiKey: number): Says => {
  return (chunk) => chunk.length > 6 && chunk.readInt16BE(4) === apiKey
}

const METHOD_FRAME = 1
const FRAME_HEAD = 7

/** Several frames may be in a chunk, and a method is the first thing in its frame. */
const amqp = ([classId, methodId]: readonly [classId: number, methodId: number]): Says => {
  return (chunk) => {
    for (
      let at = 0;
      at + FRAME_HEAD + 4 <= chunk.length;
      at += FRAME_HEAD + chunk.readUInt32BE(at + 3) + 1
    ) {
      const isOne =
        chunk.readUInt16BE(at + 7) === classId && chunk.readUInt16BE(at + 9) === methodId
      if (chunk[at] === METHOD_FRAME && isOne) return true
    }
    return false
  }
}

const never: Says = () => false

const WORDS: { readonly [Broker in Source['kind']]: { readonly [Each in Word]: Says } } = {
  hand: {
    'ack-on-wire': never,
    'defer-on-wire': never,
    'release-on-wire': never,
    'dead-letter-on-wire': never,
  },
  sqs: {
    'ack-on-wire': sqs('DeleteMessage'),
    'defer-on-wire': sqs('ChangeMessageVisibility'),
    'release-on-wire': never,
    'dead-letter-on-wire': sqs('SendMessage'),
  },
  kafka: {
    // OffsetCommit.
    'ack-on-wire': kafka(8),
    // To defer is to say nothing.
    'defer-on-wire': never,
    'release-on-wire': never,
    // Produce.
    'dead-letter-on-wire': kafka(0),
  },
  amqp: {
    'ack-on-wire': amqp([60, 80]),
    // Published to a delay queue.
    'defer-on-wire': amqp([60, 40]),
    'release-on-wire': amqp([60, 80]),
    'dead-letter-on-wire': amqp([60, 40]),
  },
}

/**
 * Lets a crash fall between a client and the kernel: the client has written, and from then on nothing of that
 * connection leaves the process. Covers the connections that are opened from now on.
 */
export function watchWire(broker: Source['kind'], crash: Crashes): void {
  const words = Object.entries(WORDS[broker]) as readonly (readonly [Word, Says])[]
  subscribe('net.client.socket', (message) => {
    const { socket } = message as { readonly socket: Socket }
    // Not now: to connect puts `write` back as it was.
    process.nextTick(() => listen(socket, words, crash))
  })
}

function listen(socket: Socket, words: readonly (readonly [Word, Says])[], crash: Crashes): void {
  const write = socket.write.bind(socket) as (...args: readonly unknown[]) => boolean
  socket.write = (data: Uint8Array | string, ...rest: readonly unknown[]): boolean => {
    for (const [word, says] of words) {
      if (!crash.isExpected(word) || !says(Buffer.from(data as string))) continue
      socket.cork()
      void crash.at(word, crash.armed)
    }
    return write(data, ...rest)
  }
}
