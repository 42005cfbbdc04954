! SPDX-License-Identifier: LGPL-2.1-or-later
! Names of Fortran: of a module, of a procedure inside of another, of the program.
module journeys
contains
  subroutine rest(n)
    integer, intent(in) :: n
    print *, "ready", getpid()
    flush (6)
    call sleep(1000)
    print *, n
  end subroutine
  subroutine travel(n)
    integer, intent(in) :: n
    call inner(n+1)
  contains
    subroutine inner(k)
      integer, intent(in) :: k
      call rest(k)
      print *, k
    end subroutine
  end subroutine
end module
program main_trip
  use journeys
  call travel(4)
end program
