/** ioredis and iovalkey: single node, Sentinel, Cluster. */
export interface IoredisStreams {
  /** Answers texts as bytes. */
  callBuffer(command: string, ...args: (string | Buffer | number)[]): Promise<unknown>
  duplicate(...overrides: never[]): object
}

/** node-redis: client, Sentinel, Cluster. A pool cannot make a connection for a receive that waits. */
export interface NodeRedisStreams {
  sendCommand(...args: never[]): Promise<unknown>
  duplicate(...overrides: never[]): object
}

/**
 * The part of a client that onceward calls. Onceward neither closes nor changes the client, and adds no listeners. It
 * makes connections of its own by `duplicate`, for receives that wait.
 */
export type StreamClient = IoredisStreams | NodeRedisStreams

export type Argument = string | Buffer

/** Name and value of one field, as bytes. */
export type Field = readonly [name: Uint8Array, value: Uint8Array]

/** An entry of a stream. Its fields have the producer's order, and may repeat. */
export interface StreamEntry {
  readonly stream: string
  readonly id: string
  readonly fields: readonly Field[]
}

/** An entry that this consumer owns now. */
export interface ClaimedEntry extends StreamEntry {
  /** Including this one. */
  readonly deliveryCount: number
}

/** What a look for entries of others brought. */
export interface Claimed {
  readonly entries: readonly ClaimedEntry[]
  /** Ids of entries that were deleted or trimmed before they were settled. */
  readonly gone: readonly string[]
  /** Where the next look goes on; `0-0` if it begins again. */
  readonly cursor: string
}

/** Who else has to do with a stream, and what nobody has to do with. */
export interface Neighbours {
  /** Other groups of the stream. */
  readonly groups: readonly string[]
  /** Other consumers, by the names of their guards, that used this group in the last half minute. */
  readonly consumers: readonly string[]
  /** Entries that the group will not deliver, and that are neither pending nor parked; undefined if that is unknown. */
  readonly adrift: number | undefined
}

export interface ClaimRequest {
  readonly stream: string
  readonly count: number
  readonly cursor: string
}

/** One entry that is parked until its time. */
export interface Parking {
  readonly id: string
  readonly afterMs: number
  readonly deliveryCount: number
}

/** The server's answers about one stream, unparsed; undefined if the user may not ask. */
export interface StreamFacts {
  /** INFO: one value for each name. */
  readonly info: ReadonlyMap<string, string> | undefined
  /** XINFO STREAM; undefined if there is no stream. */
  readonly stream: ReadonlyMap<string, unknown> | undefined
  /** XINFO GROUPS. */
  readonly groups: readonly ReadonlyMap<string, unknown>[]
  /** Id of the oldest pending entry of the group. */
  readonly oldestPending: string | undefined
  /** CONFIG GET appendfsync. */
  readonly fsync: string | undefined
}

/** The calls for one consumer of one group, each with a time limit. A call rejects with the client's error. */
export interface StreamApi {
  /** Each list of streams can be read by one command. */
  readonly readable: readonly (readonly string[])[]
  /** On a connection of its own. `count` is for each stream. */
  read(
    streams: readonly string[],
    request: { readonly count: number; readonly blockMs: number },
  ): Promise<readonly StreamEntry[]>
  /** Entries that their owner has not renewed, then parked ones that are due. */
  claim(request: ClaimRequest): Promise<Claimed>
  /**
   * Answers the ids that another consumer owns now, and those of entries that are gone. The following ones answer the ids
   * that this consumer no longer owns. All of them change only its own entries.
   */
  renew(stream: string, ids: readonly string[]): Promise<readonly string[]>
  ack(stream: string, ids: readonly string[]): Promise<readonly string[]>
  /** Lets others claim the entries at once. */
  giveBack(stream: string, ids: readonly string[]): Promise<readonly string[]>
  /** False if this consumer no longer owns the entry. */
  park(stream: string, parking: Parking): Promise<boolean>
  /** Adds an entry to another stream. With an `original`, that is acked in the same step if this consumer owns it. */
  add(
    stream: string,
    fields: readonly Field[],
    original?: Pick<StreamEntry, 'stream' | 'id'>,
  ): Promise<void>
  /** Creates the group at the first entry, and the stream, if they are missing. */
  ensureGroup(stream: string): Promise<void>
  /** Removes names of the group that own nothing and were idle for this long. */
  removeConsumers(stream: string, idleMs: number): Promise<void>
  facts(stream: string): Promise<StreamFacts>
  /** Says that this consumer uses the group, and who else does. */
  neighbours(stream: string): Promise<Neighbours>
  /** Closes the connections of its own. */
  close(): Promise<void>
}
