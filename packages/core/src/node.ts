/**
 * All that the core needs of Node's modules. No other file of the core imports them, so that a bundler for another
 * platform replaces this one: `site/playground` does.
 */
export { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
export { Console } from 'node:console'
export {
  createHash,
  createHmac,
  hash,
  randomBytes,
  randomUUID,
  timingSafeEqual,
} from 'node:crypto'
export { constants, hostname } from 'node:os'
export { inspect, promisify, types } from 'node:util'
export { brotliDecompress, gunzip, inflate, inflateRaw } from 'node:zlib'
