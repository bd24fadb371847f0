export { hotStandby } from '../servers/postgres/standby.ts'
export {
  type Erlang,
  erlang,
  memoryLimit,
  quorumQueuesOnDisk,
  type Rabbitmqctl,
  rabbitmqctl,
} from '../servers/rabbitmq/rabbitmqctl.ts'
export { Clock, turn } from './clock.ts'
export { deadLetterOf } from './dead-letter.ts'
export { guardOf, type Order } from './guard.ts'
export {
  type Handed,
  type HandMadeGuard,
  handMadeGuard,
  type Logged,
} from './hand-made-port.ts'
export { ODD_ERRORS, refusedByBothAddresses } from './odd-errors.ts'
export { randomOf } from './random.ts'
