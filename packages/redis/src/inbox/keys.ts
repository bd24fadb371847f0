import type { DeadLetterRef, EventId } from '@onceward/core/ports'
import type { ResolvedInboxOptions } from './options.ts'

/** The keys of one inbox. All have its hash tag, if it has one. */
export class InboxKeys {
  readonly hashTag: string | undefined
  readonly prefix: string

  constructor({ hashTag, namespace }: ResolvedInboxOptions) {
    this.hashTag = hashTag
    this.prefix = `${hashTag === undefined ? '' : `{${hashTag}}`}o:${namespace}:`
  }

  /** The value and the lock of an event, or of a refused message, which is never locked. */
  pair(name: string): readonly [string, string] {
    return [`${this.prefix}${name}`, `${this.prefix}l${name}`]
  }

  due(consumer: string): string {
    return `${this.prefix}due:${consumer}`
  }

  letters(consumer: string): string {
    return `${this.prefix}letters:${consumer}`
  }

  get settings(): string {
    return `${this.prefix}settings`
  }

  get consumers(): string {
    return `${this.prefix}consumers`
  }

  /** Whether a key of the program may be written together with a mark. */
  isInSlot(key: string): boolean {
    return this.hashTag === undefined || tagOf(key) === this.hashTag
  }
}

/** As Redis finds it: between the first brace and the next closing one, if anything is there. */
function tagOf(key: string): string | undefined {
  const from = key.indexOf('{')
  const to = key.indexOf('}', from + 1)
  return from < 0 || to <= from + 1 ? undefined : key.slice(from + 1, to)
}

/** `e` and the 16 bytes of the id: 22 characters, where the id as text has 36. */
export const nameOfEvent = (id: EventId): string =>
  `e${Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url')}`

export const nameOf = (ref: DeadLetterRef): string =>
  ref.kind === 'event' ? nameOfEvent(ref.id) : `f${ref.id}`

export function refOf(name: string): DeadLetterRef {
  if (name.startsWith('f')) return { kind: 'refused', id: name.slice(1) }
  const hex = Buffer.from(name.slice(1), 'base64url').toString('hex')
  const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  return { kind: 'event', id: id as EventId }
}
