! The Fortran side of ddp/c_api.h, which says what each function does. Compile it with the program:
!
!   gfortran ddp.f90 program.f90 -lddp
!
! Functions return a status (DDP_OK is 0); ddp_message() says what went wrong. Handles are
! type(c_ptr). Texts end in c_null_char. Indices of arrays begin at 0, as in C.
module ddp
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int), parameter :: DDP_OK = 0, DDP_INVALID_ARGUMENT = 1, DDP_TIMEOUT = 2, &
    DDP_PEER_LOST = 3, DDP_MISMATCH = 4, DDP_COLLECTIVE_ERROR = 5, DDP_WRONG_STATE = 6, &
    DDP_SYSTEM_ERROR = 7, DDP_OUT_OF_MEMORY = 8, DDP_OTHER_ERROR = 9
  integer(c_int), parameter :: DDP_FLOAT32 = 0, DDP_FLOAT64 = 1, DDP_BFLOAT16 = 2, &
    DDP_FLOAT16 = 3, DDP_INT64 = 4, DDP_INT32 = 5, DDP_UINT8 = 6
  integer(c_int), parameter :: DDP_SUM = 0, DDP_AVERAGE = 1, DDP_PRODUCT = 2, DDP_MIN = 3, &
    DDP_MAX = 4

  type, bind(c) :: ddp_array
    type(c_ptr) :: name, data
    integer(c_int64_t) :: num_elements
    integer(c_int) :: dtype
  end type

  interface
    integer(c_int) function ddp_group_create(host, port, rank, world_size, backend, &
                                             timeout_seconds, group) bind(c)
      import
      character(kind=c_char), intent(in) :: host(*), backend(*)
      integer(c_int), value :: port, rank, world_size
      real(c_double), value :: timeout_seconds
      type(c_ptr), intent(out) :: group
    end function
    integer(c_int) function ddp_group_create_from_environment(backend, timeout_seconds, group) &
        bind(c)
      import
      character(kind=c_char), intent(in) :: backend(*)
      real(c_double), value :: timeout_seconds
      type(c_ptr), intent(out) :: group
    end function
    integer(c_int) function ddp_group_create_from_mpi(communicator, backend, timeout_seconds, &
                                                      group) bind(c)
      import
      integer(c_int), value :: communicator
      character(kind=c_char), intent(in) :: backend(*)
      real(c_double), value :: timeout_seconds
      type(c_ptr), intent(out) :: group
    end function
    integer(c_int) function ddp_group_destroy(group) bind(c)
      import
      type(c_ptr), value :: group
    end function
    integer(c_int) function ddp_group_rank(group, rank) bind(c)
      import
      type(c_ptr), value :: group
      integer(c_int), intent(out) :: rank
    end function
    integer(c_int) function ddp_group_size(group, size) bind(c)
      import
      type(c_ptr), value :: group
      integer(c_int), intent(out) :: size
    end function
    integer(c_int) function ddp_all_reduce(group, data, num_elements, dtype, reduction) bind(c)
      import
      type(c_ptr), value :: group, data
      integer(c_int64_t), value :: num_elements
      integer(c_int), value :: dtype, reduction
    end function
    integer(c_int) function ddp_broadcast(group, data, num_elements, dtype, root) bind(c)
      import
      type(c_ptr), value :: group, data
      integer(c_int64_t), value :: num_elements
      integer(c_int), value :: dtype, root
    end function
    integer(c_int) function ddp_barrier(group) bind(c)
      import
      type(c_ptr), value :: group
    end function
    integer(c_int) function ddp_averager_create(group, arrays, num_arrays, bucket_bytes, &
                                                averager) bind(c)
      import
      type(c_ptr), value :: group
      type(ddp_array), intent(in) :: arrays(*)
      integer(c_int), value :: num_arrays
      integer(c_int64_t), value :: bucket_bytes
      type(c_ptr), intent(out) :: averager
    end function
    integer(c_int) function ddp_averager_destroy(averager) bind(c)
      import
      type(c_ptr), value :: averager
    end function
    integer(c_int) function ddp_averager_data(averager, index, data) bind(c)
      import
      type(c_ptr), value :: averager
      integer(c_int), value :: index
      type(c_ptr), intent(out) :: data
    end function
    integer(c_int) function ddp_averager_ready(averager, index) bind(c)
      import
      type(c_ptr), value :: averager
      integer(c_int), value :: index
    end function
    integer(c_int) function ddp_averager_wait(averager) bind(c)
      import
      type(c_ptr), value :: averager
    end function
    type(c_ptr) function ddp_last_error() bind(c)
      import
    end function
  end interface

contains

  ! What the last function that failed has to say.
  function ddp_message() result(message)
    character(len=:), allocatable :: message
    character(kind=c_char), pointer :: characters(:)
    integer :: i, length
    interface
      integer(c_size_t) function strlen(text) bind(c)
        import
        type(c_ptr), value :: text
      end function
    end interface
    length = int(strlen(ddp_last_error()))
    call c_f_pointer(ddp_last_error(), characters, [length])
    allocate (character(len=length) :: message)
    do i = 1, length
      message(i:i) = characters(i)
    end do
  end function
end module
