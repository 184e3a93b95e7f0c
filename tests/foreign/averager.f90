! The same in Fortran, under mpirun: the group's ranks are those of an MPI communicator.
program averager
  use, intrinsic :: iso_c_binding
  use mpi
  use ddp
  implicit none
  real(c_float), target :: w_grad, b_grad
  real(c_float) :: w = 0, b = 0, x, error
  character(kind=c_char, len=2), target :: names(2) = ['w'//c_null_char, 'b'//c_null_char]
  type(ddp_array) :: arrays(2)
  type(c_ptr) :: group, averages
  integer(c_int) :: rank
  integer :: step, i, provided, ierror

  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, ierror)
  call check(ddp_group_create_from_mpi(MPI_COMM_WORLD, 'mpi'//c_null_char, 60d0, group))
  call check(ddp_group_rank(group, rank))
  arrays(1) = ddp_array(c_loc(names(1)), c_loc(w_grad), 1, DDP_FLOAT32)
  arrays(2) = ddp_array(c_loc(names(2)), c_loc(b_grad), 1, DDP_FLOAT32)
  call check(ddp_averager_create(group, arrays, 2, 0_c_int64_t, averages))
  do step = 1, 500
    w_grad = 0
    b_grad = 0
    do i = rank, 3, 2
      x = i
      error = w * x + b - (3 * x + 1)
      w_grad = w_grad + error * x
      b_grad = b_grad + error
    end do
    call check(ddp_averager_ready(averages, 1))   ! indices begin at 0, as in C
    call check(ddp_averager_ready(averages, 0))
    call check(ddp_averager_wait(averages))
    w = w - 0.1 * w_grad
    b = b - 0.1 * b_grad
  end do
  print '(a, i0, a, f5.3, a, f5.3)', 'rank ', rank, ': w ', w, ' b ', b
  call check(ddp_averager_destroy(averages))
  call check(ddp_group_destroy(group))
  call MPI_Finalize(ierror)
contains
  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == DDP_OK) return
    print *, ddp_message()
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine
end program
